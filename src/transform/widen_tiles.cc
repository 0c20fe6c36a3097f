#include "transform/widen_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "ir/remark.h"
#include "target/warp.h"
#include "transform/loop_stages.h"
#include "transform/residency.h"
#include "transform/tile_cutter.h"

namespace tilelang::transform {

using ir::Stmt;

namespace {

constexpr int64_t kRows = 128;
constexpr int64_t kNarrow = 128;
constexpr int64_t kWide = 2 * kNarrow;
constexpr int64_t kThreads = 2 * kWarpgroup;
constexpr int kOperandBits = 16;
// How many more turns of a multiprocessor the wider tiles may take.
constexpr double kMoreTurns = 1.05;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class TileWidener : public ir::StmtMutator {
 public:
  TileWidener(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    auto grid = ir::AsInts(op->grid);
    bool possible = plain.loop != nullptr && grid && StoresOnly(op, plain) && IsNarrow(op, plain);
    if (!possible || !FillsTurns(*grid)) return self;
    for (size_t axis = 0; axis < grid->size(); ++axis) {
      if ((*grid)[axis] % 2 != 0) continue;
      const ir::Var& block = op->block_vars[axis];
      Stmt body = TileCutter(func_, op, plain, {ir::GemmDim::kN, block, kNarrow, kWide}).Body();
      if (!body.defined()) continue;
      ir::Array<ir::Expr> fewer = op->grid;
      fewer.Set(axis, ir::Const(fewer[axis].dtype(), (*grid)[axis] / 2));
      ir::KernelLaunch wide(op->block_vars, fewer, op->thread_vars,
                            {ir::Const(op->threads[0].dtype(), kThreads)}, op->attrs, body,
                            op->span);
      return Fits(wide.get()) ? Said(op, wide) : self;
    }
    return self;
  }

 private:
  static bool IsNarrow(const ir::KernelLaunchNode* op, const PlainGemm& plain) {
    if (plain.gemms.size() != 1 || op->threads.size() != 1) return false;
    auto threads = ir::AsInt(op->threads[0]);
    const ir::GemmNode* gemm = plain.gemms[0];
    const ir::GemmOperandNode* c = gemm->Operand(ir::GemmOperandKind::kC);
    auto is = [&](ir::GemmDim dim, int64_t extent) {
      return ir::IsConst(c->region->extents[*c->DimAlong(dim)], extent);
    };
    auto inputs = gemm->Inputs();
    return (threads == kWarpgroup || threads == kThreads) && is(ir::GemmDim::kM, kRows) &&
           is(ir::GemmDim::kN, kNarrow) &&
           std::all_of(inputs.begin(), inputs.end(), [](const ir::GemmOperandNode* input) {
             return input->buffer()->dtype.bits == kOperandBits;
           });
  }

  // A narrow block takes a turn of a multiprocessor, a wide one two.
  bool FillsTurns(const std::vector<int64_t>& grid) const {
    int64_t blocks = 1;
    for (int64_t extent : grid) blocks *= extent;
    if (blocks <= target_->sm_count) return false;
    int64_t narrow = CeilDiv(blocks, target_->sm_count);
    int64_t wide = 2 * CeilDiv(blocks / 2, target_->sm_count);
    return static_cast<double>(wide) <= kMoreTurns * static_cast<double>(narrow);
  }

  bool Fits(const ir::KernelLaunchNode* wide) const {
    PlainGemm plain = FindPlainGemm(wide);
    if (plain.loop == nullptr || FragmentRegisters(wide) > kMostFragments ||
        !LoadsByTma(func_, wide, plain, target_)) {
      return false;
    }
    LoopStages stages = StagesOf(wide, plain);
    return stages.Fits(std::max(stages.given, kFewestStages), target_);
  }

  static Stmt Said(const ir::KernelLaunchNode* op, const ir::KernelLaunch& wide) {
    Remark(op->span, "tiles",
           "T.Kernel: half as many blocks of " + std::to_string(kThreads) + " threads compute " +
               std::to_string(kWide) + " columns each instead of " + std::to_string(kNarrow) +
               ": they load three quarters of the bytes. The pass option "
               "tl.disable_tile_widening turns this off");
    return wide;
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func WidenTiles(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(TileWidener(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
