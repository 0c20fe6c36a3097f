#include "tiling/cut_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "ir/remark.h"
#include "op/gemm_wgmma.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kFewestColumns = 32;
constexpr const char* kTurnedOff = ". The pass option tl.disable_block_fitting turns this off";

ir::KernelLaunch With(const ir::KernelLaunchNode* op, const ir::Array<ir::Expr>& grid,
                      int64_t threads, const Stmt& body) {
  return ir::KernelLaunch(op->block_vars, grid, op->thread_vars,
                          {ir::Const(op->threads[0].dtype(), threads)}, op->attrs, body, op->span);
}

class LaunchCutter : public ir::StmtMutator {
 public:
  LaunchCutter(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt launch = CutRows(op);
    return CutColumns(launch.as<ir::KernelLaunchNode>());
  }

 private:
  // A gemm whose loop is long, with threads of one dimension; no loop otherwise.
  static PlainGemm LongGemm(const ir::KernelLaunchNode* op) {
    PlainGemm plain = FindPlainGemm(op);
    if (plain.loop == nullptr || plain.gemms.size() != 1 || op->threads.size() != 1) return {};
    if (op->attrs.count(kPartsOfK) != 0) return {};  // they fit
    return ir::AsInt(plain.loop->extent).value_or(0) >= kLongLoop ? plain : PlainGemm{};
  }
  static int64_t ExtentOf(const PlainGemm& plain, ir::GemmDim dim) {
    const ir::GemmOperandNode* c = plain.gemms[0]->Operand(ir::GemmOperandKind::kC);
    return ir::AsInt(c->region->extents[*c->DimAlong(dim)]).value_or(0);
  }

  // Rows of the tensors, 0 where the call alone knows them.
  static int64_t RowsOf(const PlainGemm& plain) {
    ir::Expr extent = ExtentOfTensor(plain, ir::GemmDim::kM);
    return extent.defined() ? ir::AsInt(extent).value_or(0) : 0;
  }

  Stmt CutRows(const ir::KernelLaunchNode* op) const {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = LongGemm(op);
    if (plain.loop == nullptr) return self;
    int64_t rows = RowsOf(plain);
    int64_t from = ExtentOf(plain, ir::GemmDim::kM);
    int64_t to = (rows + kWgmmaRows - 1) / kWgmmaRows * kWgmmaRows;
    if (to == 0 || to >= from) return self;
    Stmt body = TileCutter(func_, op, plain, {ir::GemmDim::kM, ir::Var(), from, to}).Body();
    if (!body.defined()) return self;
    Remark(op->span, "tiles",
           "T.Kernel: tiles of " + std::to_string(to) + " rows instead of " + std::to_string(from) +
               ", of which tensors have " + std::to_string(rows) + kTurnedOff);
    int64_t threads = *ir::AsInt(op->threads[0]);
    if (threads % kWarpgroup == 0) threads = std::min(threads, to / kWgmmaRows * kWarpgroup);
    return With(op, op->grid, threads, body);
  }

  Stmt CutColumns(const ir::KernelLaunchNode* op) const {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = LongGemm(op);
    auto grid = ir::AsInts(op->grid);
    if (plain.loop == nullptr || !grid) return self;
    int64_t blocks = 1;
    for (int64_t extent : *grid) blocks *= extent;
    int64_t from = ExtentOf(plain, ir::GemmDim::kN);
    int64_t to = from;
    // A transposed product computes C^T, so the columns of C become rows of the wgmma instruction.
    int64_t unit = op::PrefersTransposed(plain.gemms[0]) ? kWgmmaRows : 1;
    while (to % (2 * unit) == 0 && to / 2 >= kFewestColumns &&
           blocks * (from / to) * 2 <= target_->sm_count) {
      to /= 2;
    }
    if (to == from) return self;
    for (size_t axis = 0; axis < grid->size(); ++axis) {
      if ((*grid)[axis] == 1) continue;  // its index may be gone
      const ir::Var& block = op->block_vars[axis];
      Stmt body = TileCutter(func_, op, plain, {ir::GemmDim::kN, block, from, to}).Body();
      if (!body.defined()) continue;
      Remark(op->span, "tiles",
             "T.Kernel: " + std::to_string(blocks * (from / to)) + " blocks of " +
                 std::to_string(to) + " columns compute what " + std::to_string(blocks) + " of " +
                 std::to_string(from) + " would: more multiprocessors load" + kTurnedOff);
      ir::Array<ir::Expr> more = op->grid;
      more.Set(axis, ir::Const(more[axis].dtype(), (*grid)[axis] * (from / to)));
      return With(op, more, ThreadsFor(op, plain, to), body);
    }
    return self;
  }

  // With tiles of so many columns, of which each multiprocessor has one at most: two warpgroups
  // share its rows.
  static int64_t ThreadsFor(const ir::KernelLaunchNode* op, const PlainGemm& plain,
                            int64_t columns) {
    int64_t threads = *ir::AsInt(op->threads[0]);
    if (op::PrefersTransposed(plain.gemms[0])) {
      return std::min(threads, std::max(columns / kWgmmaRows, int64_t{1}) * kWarpgroup);
    }
    bool share = ExtentOf(plain, ir::GemmDim::kM) % (2 * kWgmmaRows) == 0;
    return share ? std::max<int64_t>(threads, 2 * kWarpgroup) : threads;
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func CutTiles(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(LaunchCutter(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
