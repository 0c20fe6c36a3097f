#include "transform/widen_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/remark.h"
#include "target/warp.h"
#include "transform/loop_stages.h"
#include "transform/residency.h"
#include "transform/tile_cost.h"
#include "transform/tile_cutter.h"

namespace tilelang::transform {

using ir::Stmt;

namespace {

constexpr TileExtents kNarrow = {128, 128};
constexpr TileExtents kWider[] = {{128, 256}, {192, 192}, {128, 192}, {256, 128}};
constexpr int64_t kThreeTimes = 3 * 64;  // the rows of wgmma, for each of as many warpgroups
constexpr int kOperandBits = 16;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string Text(const TileExtents& tile) {
  return std::to_string(tile.rows) + " x " + std::to_string(tile.columns);
}

class TileWidener : public ir::StmtMutator {
 public:
  TileWidener(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && ir::AsInts(op->grid) && StoresOnly(op, plain);
    if (!possible || !IsNarrow(op, plain) || BlocksOf(op) <= target_->sm_count) return self;
    double least = GridOf(op, plain).Cost(target_);
    Stmt best = self;
    const TileExtents* chosen = nullptr;
    for (const TileExtents& tile : kWider) {
      Stmt wide = With(op, tile);
      const auto* launch = wide.as<ir::KernelLaunchNode>();
      if (launch == nullptr || !Fits(launch)) continue;
      double cost = CostOf(launch);
      if (cost >= kClearGain * least) continue;
      least = cost;
      best = wide;
      chosen = &tile;
    }
    if (chosen != nullptr) Say(best.as<ir::KernelLaunchNode>(), *chosen);
    return best;
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
    return (threads == kWarpgroup || threads == 2 * kWarpgroup) &&
           is(ir::GemmDim::kM, kNarrow.rows) && is(ir::GemmDim::kN, kNarrow.columns) &&
           std::all_of(inputs.begin(), inputs.end(), [](const ir::GemmOperandNode* input) {
             return input->buffer()->dtype.bits == kOperandBits;
           });
  }

  // The launch with such tiles; null where it is not possible.
  Stmt With(const ir::KernelLaunchNode* op, const TileExtents& tile) const {
    int64_t threads = (tile.rows % kThreeTimes == 0 ? 3 : 2) * kWarpgroup;
    Stmt columns = Cut(op, ir::GemmDim::kN, kNarrow.columns, tile.columns, threads);
    if (!columns.defined() || tile.rows == kNarrow.rows) return columns;
    return Cut(columns.as<ir::KernelLaunchNode>(), ir::GemmDim::kM, kNarrow.rows, tile.rows,
               threads);
  }
  Stmt Cut(const ir::KernelLaunchNode* op, ir::GemmDim dim, int64_t from, int64_t to,
           int64_t threads) const {
    PlainGemm plain = FindPlainGemm(op);
    for (size_t axis = 0; axis < op->grid.size(); ++axis) {
      int64_t end = *ir::AsInt(op->grid[axis]) * from;
      TileCut cut = {dim, op->block_vars[axis], from, to, end % to == 0 ? 0 : end};
      Stmt body = TileCutter(func_, op, plain, cut).Body();
      if (!body.defined()) continue;
      ir::Array<ir::Expr> fewer = op->grid;
      fewer.Set(axis, ir::Const(fewer[axis].dtype(), CeilDiv(end, to)));
      return ir::KernelLaunch(op->block_vars, fewer, op->thread_vars,
                              {ir::Const(op->threads[0].dtype(), threads)}, op->attrs, body,
                              op->span);
    }
    return Stmt();
  }

  bool Fits(const ir::KernelLaunchNode* wide) const {
    PlainGemm plain = FindPlainGemm(wide);
    if (plain.loop == nullptr || !HasRegisters(wide) || !LoadsByTma(func_, wide, plain, target_)) {
      return false;
    }
    LoopStages stages = StagesOf(wide, plain);
    return stages.Fits(std::max(stages.given, kFewestStages), target_);
  }

  double CostOf(const ir::KernelLaunchNode* wide) const {
    PlainGemm plain = FindPlainGemm(wide);
    TileGrid grid = GridOf(wide, plain);
    bool persistent = BytesOfResult(wide, plain).has_value();
    return persistent ? PlanPersistent(grid, target_).cost : grid.Cost(target_);
  }

  static void Say(const ir::KernelLaunchNode* wide, const TileExtents& tile) {
    Remark(wide->span, "tiles",
           "T.Kernel: " + std::to_string(BlocksOf(wide)) + " blocks of " +
               std::to_string(*ir::AsInt(wide->threads[0])) + " threads compute " + Text(tile) +
               " elements each instead of " + Text(kNarrow) +
               ": they load fewer bytes for as many products. The pass option "
               "tl.disable_tile_widening turns this off");
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
