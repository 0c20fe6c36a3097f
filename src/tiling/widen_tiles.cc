#include "tiling/widen_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/remark.h"
#include "ir/visitor.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/share_loads.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class TileWidener : public ir::StmtMutator {
 public:
  TileWidener(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && ir::AsInts(op->grid) && ComputesByElement(op, plain);
    if (!possible || !HasNarrowTiles(op, plain) || BlocksOf(op) <= target_->sm_count) return self;
    best_ = {self, kNarrow, GridOf(op, plain).Cost(target_)};
    for (const TileExtents& tile : kWider) Try(op, tile);
    if (BytesOfResult(op, plain)) TryAnyRows(op, plain);
    if (!best_.launch.same_as(self)) Say(best_.launch.as<ir::KernelLaunchNode>(), best_.tile);
    return best_.launch;
  }

 private:
  struct Choice {
    Stmt launch;
    TileExtents tile;
    double cost;
  };

  void Try(const ir::KernelLaunchNode* op, const TileExtents& tile) {
    Stmt wide = WithWiderTiles(func_, op, tile, target_);
    if (!wide.defined()) return;
    double cost = CostOf(wide.as<ir::KernelLaunchNode>());
    if (cost < kClearGain * best_.cost) best_ = {wide, tile, cost};
  }

  // Heights of tiles of which full waves are made, the least cost of persistent blocks first.
  void TryAnyRows(const ir::KernelLaunchNode* op, const PlainGemm& plain) {
    ir::Expr rows = ExtentOfTensor(plain, ir::GemmDim::kM);
    ir::Expr columns = ExtentOfTensor(plain, ir::GemmDim::kN);
    if (!rows.defined() || !columns.defined() || !ir::AsInt(rows) || !ir::AsInt(columns)) return;
    TileGrid grid = GridOf(op, plain);
    std::vector<std::pair<double, TileExtents>> tiles;
    for (const TileExtents& tile : TilesOfAnyRows(RowUnitOf(plain))) {
      int64_t down = CeilDiv(*ir::AsInt(rows), tile.rows);
      grid.tile = tile;
      grid.tiles = down * CeilDiv(*ir::AsInt(columns), tile.columns);
      tiles.emplace_back(PlanPersistent(grid, down, target_).cost, tile);
    }
    std::stable_sort(tiles.begin(), tiles.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [least, tile] : tiles) {
      if (least >= kClearGain * best_.cost) break;
      Try(op, tile);
    }
  }

  double CostOf(const ir::KernelLaunchNode* wide) const {
    PlainGemm plain = FindPlainGemm(wide);
    TileGrid grid = GridOf(wide, plain);
    LoopStages stages = StagesOf(wide, plain);
    auto result = BytesOfResult(wide, plain);
    stages.others += result.value_or(0);
    bool persistent = result && stages.Fits(kFewestStages, target_);
    int64_t rows = RowsThatShare(func_, wide, plain);
    return persistent ? PlanPersistent(grid, rows, target_).cost : grid.Cost(target_);
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
  Choice best_{};
};

}  // namespace

ir::Func WidenTiles(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(TileWidener(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
