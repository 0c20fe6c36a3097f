#include "tiling/loop_stages.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "op/copy_tma.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"
#include "tiling/add_parts.h"
#include "tiling/residency.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class StageSetter : public ir::StmtMutator {
 public:
  StageSetter(const ir::ForNode* loop, int64_t stages) : loop_(loop), stages_(stages) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    if (op != loop_) return StmtMutator::Rewrite(op);
    return schedule::WithStages(op, stages_);
  }

 private:
  const ir::ForNode* loop_;
  int64_t stages_;
};

// Looks at the loads of a loop; changes nothing.
class LoadChecker : public analysis::ScopedMutator {
 public:
  LoadChecker(const ir::Func& func, const PlainGemm& plain, const Target& target)
      : plain_(plain), target_(target) {
    analyzer_.BindParams(func->params);
  }

  bool Check(const ir::KernelLaunchNode* launch) {
    threads_ = analysis::ThreadsOf(launch);
    MutateStmt(ir::ffi::GetRef<Stmt>(launch));
    return by_tma_;
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (std::count(plain_.loads.begin(), plain_.loads.end(), op) != 0) {
      op::Context ctx{target_, {0, threads_.count}, threads_.linear, threads_.count,
                      nullptr, &analyzer_};
      ctx.pipelined = true;
      by_tma_ = by_tma_ && op::TmaLoad()->Obstacle(op, &ctx).empty();
    }
    return ir::ffi::GetRef<Stmt>(op);
  }

 private:
  const PlainGemm& plain_;
  Target target_;
  analysis::LaunchThreads threads_{ir::Expr(), 0};
  bool by_tma_ = true;
};

}  // namespace

bool LoopStages::HideLatency(int64_t stages) const {
  constexpr int64_t kEnoughStages = 6;
  constexpr int64_t kEnoughBytes = 96 << 10;
  return stages >= std::min(kEnoughStages, iterations) || stages * bytes >= kEnoughBytes;
}

int64_t LoopStages::Room(int64_t blocks, const Target& target) const {
  int64_t block =
      std::min<int64_t>(target->shared_memory_per_block, target->shared_memory_per_sm / blocks);
  int64_t room = (block - kBlockBytes - others) / bytes;
  return std::min({room, kMostStages, std::max(iterations, given)});
}

LoopStages StagesOf(const ir::KernelLaunchNode* launch, const PlainGemm& plain, int64_t parts) {
  int64_t bytes = 0;
  std::unordered_set<const ir::ffi::Object*> seen;
  for (const ir::CopyNode* load : plain.loads) {
    const ir::Buffer& tile = load->dst->buffer;
    if (seen.insert(tile.get()).second) bytes += schedule::TileBytes(tile);
  }
  int64_t given = schedule::StagesOf(plain.loop);
  int64_t exchange = 0;
  if (parts > 1) {
    int64_t sums = schedule::TileBytes(plain.gemms[0]->result()->buffer);
    exchange = BytesOfExchange(sums, BytesOfResult(launch, plain).value_or(0), parts);
  }
  return {given, bytes, schedule::SharedBytes(launch) - given * bytes + exchange,
          CeilDiv(ir::AsInt(plain.loop->extent).value_or(kMostStages), parts)};
}

Stmt WithStages(const Stmt& s, const ir::ForNode* loop, int64_t stages) {
  return StageSetter(loop, stages).MutateStmt(s);
}

bool LoadsByTma(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
                const Target& target) {
  return LoadChecker(func, plain, target).Check(launch);
}

}  // namespace tilelang::tiling
