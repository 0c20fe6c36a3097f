#include "tiling/persistent_plan.h"

#include <cmath>

#include "tiling/add_parts.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

namespace {

// The time of the launch of another grid, about 5 us: 13 tiles of 128 x 128 x 64.
constexpr double kLaunch = 13;
constexpr int64_t kNarrowestPart = 64;
constexpr int64_t kMostTailParts = 4;

// Returns whether so many blocks of a cluster can share the iterations of a tile of 16-bit operands
// with float32 sums: they are there at the same time, exchange columns in 8s, and have shared
// memory for the exchange beside stages that hide the latency of loads.
bool CanShareK(const TileGrid& grid, int64_t blocks, const Target& target) {
  constexpr int64_t kShortBytes = 2;  // of an element of an operand or a result
  constexpr int64_t kSumBytes = 4;
  const TileExtents& tile = grid.tile;
  bool fits = tile.columns % (blocks * kRowUnit) == 0 && grid.matrices == 0 &&
              grid.tiles <= ClustersAtOnce(blocks, target);
  int64_t elements = tile.rows * tile.columns;
  LoopStages stages{};
  stages.bytes = (tile.rows + tile.columns) * kDepthOfStep * kShortBytes;
  stages.others = BytesOfExchange(elements * kSumBytes, elements * kShortBytes, blocks);
  stages.iterations = CeilDiv(static_cast<int64_t>(std::ceil(grid.iterations)), blocks);
  return fits && stages.HideLatency(stages.Room(1, target));
}

}  // namespace

PersistentPlan PlanPersistent(const TileGrid& grid, const PersistentLimits& limits,
                              const Target& target) {
  PersistentPlan best = {{}, false, grid.Cost(target)};
  TileGrid whole = grid;
  whole.tiles -= grid.tiles % target->sm_count;
  // Warpgroups share the columns of tiles that are computed transposed.
  bool divides = whole.tiles > 0 && whole.tiles < grid.tiles && grid.tile.rows % kWgmmaRows == 0;
  double least = kClearGain * best.cost;
  for (int64_t parts = 1; parts <= kMostTailParts && divides; ++parts) {
    if (parts > 1 && grid.tile.columns % (parts * kNarrowestPart) != 0) continue;
    TileGrid rest = grid;
    rest.tiles = (grid.tiles - whole.tiles) * parts;
    rest.tile.columns /= parts;
    for (int64_t blocks = 1; blocks <= (limits.shares_k ? kLargestCluster : 1); ++blocks) {
      TailPlan tail{parts, blocks};
      if (!tail.IsCut() || (blocks > 1 && !CanShareK(rest, blocks, target))) continue;
      double last = blocks == 1 ? rest.Cost(target)
                                : rest.CostOfPart(blocks, target) + rest.CostOfExchange(blocks);
      double cost = whole.Cost(target) + last + kLaunch;
      if (cost >= least) continue;
      least = cost;
      best = {tail, false, cost};
    }
  }
  if (limits.shared_rows == 0 || target->sm_count % 2 != 0) return best;
  double of_pairs = grid.SharingLoads(limits.shared_rows).Cost(target) + kPairing;
  return of_pairs < kClearGain * best.cost ? PersistentPlan{{}, true, of_pairs} : best;
}

}  // namespace tilelang::tiling
