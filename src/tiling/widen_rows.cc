#include "tiling/widen_rows.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "target/warp.h"
#include "tiling/plain_gemm.h"
#include "tiling/residency.h"
#include "tiling/retile.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kLanes = 128;  // of tensor memory
// Columns of a result of which a thread can hold a whole row.
constexpr int64_t kLongestRow = 128;

class RowWidener : public ir::StmtMutator {
 public:
  RowWidener(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm chain = FindGemmChain(op);
    if (chain.loop == nullptr || op->threads.size() != 1) return self;
    int64_t rows = ExtentAlong(chain.gemms[0]->Operand(ir::GemmOperandKind::kC), ir::GemmDim::kM);
    if (rows > 0 && rows % kLanes == 0) return WithThreadOfEachRow(op, chain, rows);
    bool narrow = rows > 0 && rows < kLanes && kLanes % rows == 0;
    if (!narrow || analysis::BlocksOf(op) * rows < kLanes * target_->sm_count) return self;
    int64_t threads = std::max<int64_t>(analysis::ThreadsOf(op).count, kWarpgroup);
    ir::KernelLaunch launch = WithThreads(op, threads);
    Stmt wide = CutTile(func_, launch.operator->(), chain, ir::GemmDim::kM, rows, kLanes);
    if (!wide.defined()) return self;
    PlainGemm of_wide = FindGemmChain(wide.as<ir::KernelLaunchNode>());
    // Results of 64 rows may share columns, those of 128 may not.
    if (!AreByTcgen05(of_wide, threads, target_) ||
        ColumnsOfSums(of_wide) > target_->tmem_columns) {
      return self;
    }
    Remark(op->span, "tiles",
           "T.Kernel: blocks compute " + std::to_string(kLanes) + " rows instead of " +
               std::to_string(rows) +
               ": tcgen05.mma takes as long for them. The pass option tl.disable_tile_choice turns "
               "this off");
    return WithThreadOfEachRow(wide.as<ir::KernelLaunchNode>(), of_wide, kLanes);
  }

 private:
  // Returns the launch with one thread for each row, if it has more threads.
  Stmt WithThreadOfEachRow(const ir::KernelLaunchNode* op, const PlainGemm& chain,
                           int64_t rows) const {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t threads = analysis::ThreadsOf(op).count;
    bool short_rows = std::all_of(chain.gemms.begin(), chain.gemms.end(), [](const auto* gemm) {
      int64_t columns = ExtentAlong(gemm->Operand(ir::GemmOperandKind::kC), ir::GemmDim::kN);
      return columns > 0 && columns <= kLongestRow;
    });
    if (threads <= rows || !short_rows) return self;
    ir::KernelLaunch launch = WithThreads(op, rows);
    PlainGemm of_rows = FindGemmChain(launch.operator->());
    if (of_rows.loop == nullptr || !AreByTcgen05(of_rows, rows, target_)) return self;
    Remark(op->span, "threads",
           "T.Kernel: " + std::to_string(rows) + " threads instead of " + std::to_string(threads) +
               ", one for each row: no threads share a row, and two blocks fit a multiprocessor. "
               "The pass option "
               "tl.disable_tile_choice turns this off");
    return launch;
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func WidenRows(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || !target->has_tma) return func;
  return func.WithBody(RowWidener(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
