#include "tiling/join_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <string>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "tiling/joined_rows.h"
#include "tiling/residency.h"
#include "tiling/row_program.h"
#include "transform/stage_rows.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kElements = 4096;

// The longest rows that blocks join, and the elements of a thread.
struct RowsOfBlock {
  int64_t longest;
  int64_t elements_of_thread;
};
// Loads by TMA ahead leave threads all registers. Rows that TMA cannot load wait for memory: with
// few registers a thread, an SM has more blocks that wait. stream_rows divides the long ones among
// few threads instead.
constexpr RowsOfBlock kStreamed = {1023, 32}, kLoaded = {1023, 16}, kUnaligned = {256, 8};

// Rounds of blocks that the joined grid still has.
constexpr int64_t kRoundsLeft = 4;

// Returns whether vectors can load all rows of tensors of the launch.
bool AreByVectors(const ir::KernelLaunchNode* op) {
  bool aligned = true;
  ir::WalkEffects(op->body, [&](const ir::Effect& effect) {
    const auto& shape = effect.buffer->shape;
    if (!effect.buffer.IsGlobal() || shape.size() < 2) return;
    int64_t bytes = ir::AsInt(shape.back()).value_or(1) * ir::Bytes(effect.buffer->dtype);
    aligned = aligned && transform::HasVectors(bytes);
  });
  return aligned;
}

class BlockJoiner : public ir::StmtMutator {
 public:
  BlockJoiner(const ir::Func& func, const Target& target) : target_(target) {
    analyzer_.BindParams(func->params);
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    if (!HasRowsOnly(op) || !Reduces(op)) return self;
    int64_t elements = LargestFragment(op);
    int64_t threads = analysis::ThreadsOf(op).count;
    RowsOfBlock rows = !target_->has_tcgen05 ? kLoaded : AreByVectors(op) ? kStreamed : kUnaligned;
    if (elements == 0 || elements > rows.longest) return self;
    int64_t most = std::min(kElements, rows.elements_of_thread * threads) / elements;
    most = std::min(most, analysis::BlocksOf(op) / (kRoundsLeft * target_->sm_count));
    if (most < 2) return self;
    auto count = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
    for (size_t axis = 0; axis < op->grid.size(); ++axis) {
      bool whole = analyzer_.Divides(ir::ExtentInside(op->grid[axis]), count);
      Stmt joined = WithJoinedRows(op, axis, count, whole);
      if (!joined.defined()) continue;
      Remark(op->span, "blocks",
             "T.Kernel: a block computes " + std::to_string(count) +
                 " rows instead of one: a row has few elements for each thread. The pass option "
                 "tl.disable_block_fitting turns this off");
      return joined;
    }
    return self;
  }

 private:
  Target target_;
  arith::Analyzer analyzer_;
};

}  // namespace

ir::Func JoinBlocks(const ir::Func& func, const Target& target) {
  return func.WithBody(BlockJoiner(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
