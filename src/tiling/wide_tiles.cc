#include "tiling/wide_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/settings.h"
#include "tiling/loop_stages.h"
#include "tiling/persistent_plan.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/share_loads.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class TileWidener {
 public:
  TileWidener(const ir::Func& func, const Target& target)
      : func_(func), target_(target), shares_k_(func->attrs.count(ir::kWholeSums) == 0) {}

  WideTiles Choose(const ir::KernelLaunchNode* op, const PlainGemm& plain) {
    best_ = {ir::ffi::GetRef<Stmt>(op), kNarrow, GridOf(op, plain).Cost(target_)};
    bool possible = ComputesByElement(op, plain) && HasNarrowTiles(op, plain) &&
                    BlocksOf(op) > target_->sm_count;
    if (!possible || func_->attrs.count(ir::kNarrowTiles) != 0) return best_;
    for (const TileExtents& tile : kWider) Try(op, tile);
    if (BytesOfResult(op, plain)) TryAnyRows(op, plain);
    return best_;
  }

 private:
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
      tiles.emplace_back(PlanPersistent(grid, {down, shares_k_}, target_).cost, tile);
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
    PersistentLimits limits{RowsThatShare(func_, wide, plain), shares_k_};
    return persistent ? PlanPersistent(grid, limits, target_).cost : grid.Cost(target_);
  }

  ir::Func func_;
  Target target_;
  bool shares_k_;
  WideTiles best_{};
};

}  // namespace

WideTiles ChooseWideTiles(const ir::Func& func, const ir::KernelLaunchNode* op,
                          const PlainGemm& plain, const Target& target) {
  return TileWidener(func, target).Choose(op, plain);
}

}  // namespace tilelang::tiling
