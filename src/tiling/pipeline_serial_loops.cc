#include "tiling/pipeline_serial_loops.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <array>
#include <string>

#include "arith/analyzer.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "layout/digits.h"
#include "schedule/channel.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kLeastIterations = 4;
constexpr int64_t kLeastTileStages = 2, kMostTileStages = 16;

// Bytes of loads under way on an SM: beyond `enough`, stages bring nothing; `wanted` keeps memory
// busy while blocks compute.
struct BytesOfSm {
  int64_t enough;
  int64_t wanted;
};
constexpr BytesOfSm kWithTcgen05 = {64 * 1024, 128 * 1024}, kOthers = {32 * 1024, 64 * 1024};

// Returns whether the launch names neither a barrier nor a pipeline, multiplies nothing, and all
// its threads do the same.
bool IsPlain(const ir::KernelLaunchNode* launch) {
  using enum ir::StmtKind;
  constexpr std::array kPlain = {kStore,  kBind, kSeq,  kIf,     kFor,        kAlloc,
                                 kAssume, kCopy, kFill, kReduce, kParallelFor};
  if (!launch->attrs.empty() || launch->threads.size() != 1) return false;
  bool plain = !ir::HasStmt(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    return std::find(kPlain.begin(), kPlain.end(), s->kind) == kPlain.end() ||
           (loop != nullptr && loop->Kind() == ir::ForKind::kPipelined);
  });
  ir::WalkExprs(launch->body, [&](const ir::Expr& e) {
    for (const ir::Var& thread : launch->thread_vars) plain = plain && !e.same_as(thread);
    const auto* call = e.as<ir::CallNode>();
    plain = plain && (call == nullptr || (call->intrinsic != nullptr && call->intrinsic->pure));
    return plain;
  });
  return plain;
}

ir::Array<Stmt> StatementsOf(const ir::ForNode* loop) {
  const auto* body = loop->body.as<ir::SeqNode>();
  return body != nullptr ? body->stmts : ir::Array<Stmt>{loop->body};
}

bool HasTileStatementsOnly(const ir::ForNode* loop) {
  ir::Array<Stmt> stmts = StatementsOf(loop);
  return std::all_of(stmts.begin(), stmts.end(), [](const Stmt& s) {
    const auto* copy = s.as<ir::CopyNode>();
    const auto* parallel = s.as<ir::ParallelForNode>();
    const auto* store = s.as<ir::StoreNode>();
    return s->kind == ir::StmtKind::kFill || s->kind == ir::StmtKind::kReduce ||
           s->kind == ir::StmtKind::kBind || (copy != nullptr && copy->IsPlain()) ||
           (parallel != nullptr && parallel->annotations.empty()) ||
           (store != nullptr && !store->buffer.IsGlobal());
  });
}

// Returns whether the copy or the parallel loop loads a part of a tensor that `var` selects.
bool LoadsBy(const Stmt& s, const ir::Var& var) {
  bool loads = false;
  if (const auto* copy = s.as<ir::CopyNode>()) {
    for (const ir::Expr& start : copy->src->mins) loads = loads || ir::UsesVar(start, var);
    return loads && copy->src->buffer.IsGlobal();
  }
  if (s->kind != ir::StmtKind::kParallelFor) return false;
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    if (!effect.Reads() || !effect.buffer.IsGlobal()) return;
    for (const ir::Expr& index : effect.indices) loads = loads || ir::UsesVar(index, var);
  });
  return loads;
}

// The loads of a loop: whether there are some that may run ahead, and what shared tiles take.
struct LoopLoads {
  bool found = false;
  int64_t shared_bytes = 0;
};

LoopLoads FindLoads(const ir::KernelLaunchNode* launch, const ir::ForNode* loop) {
  LoopLoads loads;
  for (const Stmt& s : StatementsOf(loop)) {
    if (!LoadsBy(s, loop->var)) continue;
    loads.found = true;
    const auto* copy = s.as<ir::CopyNode>();
    auto shape = copy != nullptr && copy->dst->buffer.IsShared()
                     ? ir::AsInts(copy->dst->buffer->shape)
                     : std::nullopt;
    if (shape) loads.shared_bytes += layout::Product(*shape) * ir::Bytes(copy->dst->buffer->dtype);
  }
  bool stable = true;
  ir::WalkEffects(loop->body, [&](const ir::Effect& read) {
    if (!read.Reads() || !read.buffer.IsGlobal()) return;
    ir::WalkEffects(launch->body, [&](const ir::Effect& write) {
      stable = stable && !(write.Writes() && ir::MayOverlap(write.buffer, read.buffer));
    });
  });
  loads.found = loads.found && stable;
  return loads;
}

class LoopPipeliner : public ir::StmtMutator {
 public:
  explicit LoopPipeliner(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    const auto* body = op->body.as<ir::SeqNode>();
    if (body == nullptr || !IsPlain(op)) return ir::ffi::GetRef<Stmt>(op);
    ir::Array<Stmt> stmts;
    for (const Stmt& s : body->stmts) {
      const auto* loop = s.as<ir::ForNode>();
      int64_t stages = loop != nullptr ? Stages(op, loop) : 0;
      stmts.push_back(stages > 0 ? Pipelined(loop, stages) : s);
    }
    return ir::WithBody(op, ir::Seq(stmts));
  }

 private:
  // Returns the stages of a loop; 0 for one that stays.
  int64_t Stages(const ir::KernelLaunchNode* op, const ir::ForNode* loop) const {
    if (loop->Kind() != ir::ForKind::kSerial || !loop->annotations.empty()) return 0;
    int64_t iterations = arith::Analyzer().ConstBounds(loop->extent).hi;
    if (iterations < kLeastIterations) return 0;
    if (!HasTileStatementsOnly(loop)) return 0;
    LoopLoads loads = FindLoads(op, loop);
    if (!loads.found) return 0;
    if (loads.shared_bytes == 0) return target_->has_tcgen05 ? kLeastTileStages : 0;
    const BytesOfSm& bytes = target_->has_tcgen05 ? kWithTcgen05 : kOthers;
    int64_t of_sm = BlocksPerSm(op, target_, loads.shared_bytes) * loads.shared_bytes;
    if (of_sm > bytes.enough) return 0;
    // Stages that most iterations do not fill again bring nothing.
    int64_t most = std::min(kMostTileStages, iterations / 2);
    return std::clamp((bytes.wanted + of_sm - 1) / of_sm, kLeastTileStages, most);
  }

  static Stmt Pipelined(const ir::ForNode* loop, int64_t stages) {
    Remark(loop->span, "pipeline",
           "T.serial: the loop is pipelined, as by T.Pipelined with " + std::to_string(stages) +
               " stages: each iteration loads another part of a tensor. The pass option "
               "tl.disable_load_early keeps the loop as written");
    ir::For pipelined(loop->var, loop->min, loop->extent, ir::ForKind::kPipelined, loop->body, {},
                      loop->span);
    return schedule::WithStages(pipelined.operator->(), stages);
  }

  const Target& target_;
};

}  // namespace

ir::Func PipelineSerialLoops(const ir::Func& func, const Target& target) {
  return func.WithBody(LoopPipeliner(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
