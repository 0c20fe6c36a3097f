#include "tiling/join_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <string>

#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "tiling/joined_rows.h"
#include "tiling/residency.h"
#include "tiling/row_program.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kLongest = 512;
constexpr int64_t kElements = 4096;
constexpr int64_t kElementsOfThread = 32;
// Rounds of blocks that the joined grid still has.
constexpr int64_t kRoundsLeft = 4;

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
    if (elements == 0 || elements > kLongest || threads == 0) return self;
    int64_t most = std::min(kElements, kElementsOfThread * threads) / elements;
    most = std::min(most, BlocksOf(op) / (kRoundsLeft * target_->sm_count));
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
