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

class RowWidener : public ir::StmtMutator {
 public:
  RowWidener(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm chain = FindGemmChain(op);
    if (chain.loop == nullptr || op->threads.size() != 1) return self;
    int64_t rows = ExtentAlong(chain.gemms[0]->Operand(ir::GemmOperandKind::kC), ir::GemmDim::kM);
    bool narrow = rows > 0 && rows < kLanes && kLanes % rows == 0;
    if (!narrow || analysis::BlocksOf(op) * rows < kLanes * target_->sm_count) return self;
    int64_t threads = std::max<int64_t>(analysis::ThreadsOf(op).count, kWarpgroup);
    ir::KernelLaunch launch = WithThreads(op, threads);
    Stmt wide = CutTile(func_, launch.operator->(), chain, ir::GemmDim::kM, rows, kLanes);
    if (!wide.defined()) return self;
    PlainGemm of_wide = FindGemmChain(wide.as<ir::KernelLaunchNode>());
    if (!AreByTcgen05(of_wide, threads, target_)) return self;
    Remark(op->span, "tiles",
           "T.Kernel: blocks compute " + std::to_string(kLanes) + " rows instead of " +
               std::to_string(rows) +
               ": tcgen05.mma takes as long for them. The pass option tl.disable_tile_choice turns "
               "this off");
    return wide;
  }

 private:
  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func WidenRows(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || !target->has_tma) return func;
  return func.WithBody(RowWidener(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
