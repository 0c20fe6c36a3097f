#include "tiling/divide_softmax.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "analysis/grid_blocks.h"
#include "analysis/running_softmax.h"
#include "arith/analyzer.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "memory/plan_shared_memory.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/softmax_parts.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

// The exchange takes as long as so many iterations of a block.
constexpr int64_t kIterationsOfExchange = 3;
constexpr int64_t kIterationsOfLaunch = 1 << 20;

class SoftmaxSharer : public ir::StmtMutator {
 public:
  SoftmaxSharer(const ir::Func& func, const Target& target)
      : func_(func), target_(target), parts_(func->attrs.Get(ir::kTileParts)) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm chain = FindGemmChain(op);
    if (chain.loop == nullptr) return self;
    auto softmax = analysis::FindRunningSoftmax(op, chain.loop);
    if (!softmax) return self;
    auto rows = ir::AsInt(softmax->carried->shape[0]);
    int64_t parts = rows ? PartsOf(op, chain.loop, *rows) : 1;
    for (; parts > 1; parts /= 2) {
      DividedSoftmax divided = WithSoftmaxParts(func_, op, chain, *softmax, parts);
      if (!divided.launch.defined()) return Keep(op, divided);
      Stmt fitting = Fitting(divided.launch);
      if (!fitting.defined()) continue;
      Remark(op->span, "tiles",
             "T.Kernel: " + std::to_string(parts) +
                 " blocks of a cluster share the iterations of a softmax and merge their rows, "
                 "because the grid has few blocks. The pass options tl.disable_split_k and "
                 "tl.disable_tile_choice turn this off");
      return fitting;
    }
    return self;
  }

 private:
  // Returns how many blocks would share the iterations.
  int64_t PartsOf(const ir::KernelLaunchNode* op, const ir::ForNode* loop, int64_t rows) const {
    auto fits = [&](int64_t parts) { return rows % (parts * kRowsOfPart) == 0; };
    int64_t largest = std::min<int64_t>(kLargestCluster, target_->max_cluster_size);
    if (parts_) {
      int64_t given = (*parts_).cast<int64_t>();
      return given <= largest && fits(given) ? given : 1;
    }
    int64_t blocks = analysis::BlocksOf(op);
    arith::Analyzer analyzer;
    analyzer.BindLaunch(op);
    // Many if the launch says how many.
    int64_t iterations = std::min(analyzer.ConstBounds(loop->extent).hi, kIterationsOfLaunch);
    int64_t parts = 1;
    for (int64_t more = 2; more <= largest && more <= iterations && fits(more); more *= 2) {
      bool saves = iterations - CeilDiv(iterations, more) >= kIterationsOfExchange;
      if (saves && blocks <= ClustersAtOnce(more, target_)) parts = more;
    }
    return parts;
  }

  // Returns the launch with as many stages as shared memory has room for beside the exchange; null
  // for none.
  Stmt Fitting(const Stmt& divided) const {
    const auto* launch = divided.as<ir::KernelLaunchNode>();
    const ir::ForNode* loop = nullptr;
    int64_t overlaying = 0;  // bytes of tiles that may take those of operands
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      if (loop == nullptr) loop = s.as<ir::ForNode>();
      const auto* alloc = s.as<ir::AllocNode>();
      if (alloc != nullptr && alloc->buffer->attrs.count(memory::kOverlays) != 0) {
        overlaying += schedule::TileBytes(alloc->buffer);
      }
      return true;
    });
    int64_t given = schedule::StagesOf(loop);
    for (int64_t stages = given; stages >= std::min<int64_t>(given, 2); --stages) {
      Stmt staged = WithStages(divided, loop, stages);
      int64_t bytes = schedule::SharedBytes(staged.as<ir::KernelLaunchNode>()) - overlaying;
      bool fits = bytes + schedule::kBytesBesideTiles <= target_->shared_memory_per_block;
      if (fits && bytes >= overlaying) return staged;
    }
    return Stmt();
  }

  static Stmt Keep(const ir::KernelLaunchNode* op, const DividedSoftmax& divided) {
    const ir::Span& span = divided.span.defined() ? divided.span : op->span;
    Remark(span, "tiles",
           "T.Kernel has few blocks, but blocks of a cluster do not share the iterations of its "
           "softmax: " +
               divided.obstacle);
    return ir::ffi::GetRef<Stmt>(op);
  }

  ir::Func func_;
  Target target_;
  ir::ffi::Optional<ir::Any> parts_;
};

}  // namespace

ir::Func DivideSoftmax(const ir::Func& func, const Target& target) {
  bool whole = func->attrs.count(ir::kWholeSums) != 0 || func->attrs.count(ir::kGivenBlocks) != 0;
  if (target->max_cluster_size == 1 || whole) return func;
  return func.WithBody(SoftmaxSharer(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
