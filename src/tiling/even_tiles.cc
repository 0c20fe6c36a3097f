#include "tiling/even_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "ir/settings.h"
#include "target/warp.h"
#include "tiling/add_parts.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kMostColumns = 192;
constexpr int64_t kMostRows = 256;
constexpr int64_t kFewestRows = 32;
constexpr int64_t kMostCount = 16;  // tiles one below the other
// The time of memory for an element of 16 bits, as of tiling/tile_cost.h: 3 TB/s; and how much
// longer it takes for tiles of B whose rows are half of a line.
constexpr double kMemory = 2.4e-6;
constexpr double kHalfLines = 1.08;
// If most multiprocessors have narrow tiles, this is the share of the shorter of two times, of
// tiles and of memory, that the longer one does not hide.
constexpr double kNotHidden = 0.3;

// Sums have other bits where blocks share K: for as much less time only.
constexpr double kWorthParts = 0.92;
constexpr int64_t kStagesOfParts = 6;  // with less in flight, loads take longer

int64_t ThreadsOf(const TileExtents& tile) { return tile.columns / kColumnUnit * kWarpgroup; }

bool FitsRegisters(const TileExtents& tile) {
  int64_t threads = ThreadsOf(tile);
  return tile.rows * tile.columns / threads <= MostBesideLoader(threads);
}

struct TileChoice {
  TileExtents tile;
  int64_t parts;
  double cost;
};

class Chooser {
 public:
  Chooser(const ir::Func& func, const TileGrid& narrow, int64_t rows, int64_t columns,
          int64_t depth, const Target& target)
      : func_(func), target_(target), narrow_(narrow), rows_(rows), columns_(columns) {
    auto elements = static_cast<double>(rows * columns + (rows + columns) * depth);
    memory_ = kMemory * elements;
    splits_ =
        func->attrs.count(ir::kWholeSums) == 0 && func->attrs.count(ir::kEpilogueColumns) == 0;
  }

  EvenTiles Choose(const ir::KernelLaunchNode* op) const {
    TileChoice best = {kNarrow, 1, kClearGain * CostOtherwise()};
    EvenTiles chosen;
    for (int64_t parts : {1, 2, 3, 4}) {
      if (parts > 1 && !splits_) break;
      TileChoice choice = Best(parts);
      if (parts > 1) choice.cost /= kWorthParts;
      if (choice.cost >= best.cost) continue;
      Stmt launch = WithTiles(func_, op, choice.tile, ThreadsOf(choice.tile));
      if (launch.defined()) launch = Fitted(launch.as<ir::KernelLaunchNode>(), parts);
      if (!launch.defined()) continue;
      chosen = {launch, choice.tile, parts, Of(choice.tile).tiles};
      best = choice;
    }
    return chosen;
  }

 private:
  // Tiles of a launch by as many blocks each; null where that is not possible.
  Stmt Fitted(const ir::KernelLaunchNode* op, int64_t parts) const {
    if (parts == 1) return InParts(op, parts);
    PlainGemm plain = FindPlainGemm(op);
    if (plain.loop == nullptr || !CanShareIterations(op, plain, parts, ir::GemmDim::kM))
      return Stmt();
    Stmt split = InParts(op, parts);
    const auto* launch = split.as<ir::KernelLaunchNode>();
    bool fits = StagesOf(launch, FindPlainGemm(launch)).Fits(kStagesOfParts, target_);
    return fits ? split : Stmt();
  }

  TileGrid Of(const TileExtents& tile) const {
    TileGrid grid = narrow_;
    grid.tile = tile;
    grid.tiles = CeilDiv(rows_, tile.rows) * CeilDiv(columns_, tile.columns);
    return grid;
  }

  // Returns the cost of the launch without this pass.
  double CostOtherwise() const {
    TileExtents tile = kNarrow;
    tile.rows = std::min(tile.rows, CeilDiv(rows_, kWgmmaRows) * kWgmmaRows);
    while (Of(tile).tiles * 2 <= target_->sm_count && tile.columns > 32) tile.columns /= 2;
    double memory = tile.columns < kColumnUnit ? kHalfLines * memory_ : memory_;
    double least = Of(tile).Cost(target_);
    if (Of(kNarrow).tiles > target_->sm_count) {
      for (const TileExtents& wide : kWider) least = std::min(least, Of(wide).Cost(target_));
    }
    return BesideMemory(least, memory);
  }
  // Returns the cost of a wave of tiles beside the time of their bytes.
  double BesideMemory(double cost, double memory) const {
    bool few = 2 * Of(kNarrow).tiles <= target_->sm_count;
    return std::max(cost, memory) + (few ? 0 : kNotHidden * std::min(cost, memory));
  }

  // The best tiles that divide the rows evenly, of blocks that are all there at a time.
  TileChoice Best(int64_t parts) const {
    TileChoice best = {kNarrow, parts, std::numeric_limits<double>::infinity()};
    int64_t unit = kRowUnit * parts;
    for (int64_t count = 1; count <= kMostCount; ++count) {
      // Blocks that share K load each column of B once.
      if (count > 1 && (parts > 1 || CeilDiv(rows_, count) <= kFewestRows)) break;
      int64_t of_tile = CeilDiv(CeilDiv(rows_, count), unit) * unit;
      for (int64_t columns = kColumnUnit; columns <= kMostColumns; columns += kColumnUnit) {
        TileExtents tile = {of_tile, columns};
        if (of_tile > kMostRows || !FitsRegisters(tile)) continue;
        TileGrid grid = Of(tile);
        if (grid.tiles > ClustersAtOnce(parts)) continue;
        double cost = parts == 1 ? BesideMemory(grid.CostOfTile(), memory_)
                                 : grid.CostOfParts(parts, memory_);
        if (cost < best.cost) best = {tile, parts, cost};
      }
    }
    return best;
  }
  // Clusters that the GPU holds: they do not fill the groups of multiprocessors that they are of.
  int64_t ClustersAtOnce(int64_t parts) const {
    int64_t count = target_->sm_count / parts;
    return parts > 2 ? count * 10 / 11 : count;
  }

  ir::Func func_;
  Target target_;
  TileGrid narrow_;
  int64_t rows_;
  int64_t columns_;
  double memory_ = 0;    // the least that its tensors take
  bool splits_ = false;  // blocks may share K
};

std::optional<int64_t> ExtentOf(const PlainGemm& plain, ir::GemmDim dim) {
  ir::Expr extent = ExtentOfTensor(plain, dim);
  return extent.defined() ? ir::AsInt(extent) : std::nullopt;
}

}  // namespace

int64_t EvenTiles::Threads() const { return ThreadsOf(tile); }

EvenTiles ChooseEvenTiles(const ir::Func& func, const ir::KernelLaunchNode* op,
                          const PlainGemm& plain, int64_t rows, const Target& target) {
  auto columns = ExtentOf(plain, ir::GemmDim::kN), depth = ExtentOf(plain, ir::GemmDim::kK);
  bool is_long = ir::AsInt(plain.loop->extent).value_or(0) >= kLongLoop;
  if (!is_long || !columns || !depth) return {};
  return Chooser(func, GridOf(op, plain), rows, *columns, *depth, target).Choose(op);
}

}  // namespace tilelang::tiling
