// How persistent blocks compute the tiles of a grid, on targets with wgmma.
#ifndef TILELANG_TILING_PERSISTENT_PLAN_H_
#define TILELANG_TILING_PERSISTENT_PLAN_H_

#include "target/target.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

// Says how blocks of another launch compute the tiles of the last wave, of which there are fewer
// than SMs. Each tile is cut into `parts` tiles of fewer columns, and the iterations of each of
// these are shared by `blocks` blocks of a cluster.
struct TailPlan {
  int64_t parts = 1;
  int64_t blocks = 1;

  bool IsCut() const { return parts > 1 || blocks > 1; }
};

// Persistent blocks compute whole waves, and another launch the rest of the tiles if that is cut.
// Or pairs of blocks that load tiles of B together compute all tiles.
struct PersistentPlan {
  TailPlan tail;
  bool shares_loads = false;
  double cost = 0;  // by tiling/tile_cost.h
};

// Properties of a launch that exclude plans.
struct PersistentLimits {
  int64_t shared_rows = 0;  // of tiles, of which pairs of blocks load tiles of B together; 0: none
  bool shares_k = false;    // blocks of a cluster may share iterations
};

PersistentPlan PlanPersistent(const TileGrid& grid, const PersistentLimits& limits,
                              const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PERSISTENT_PLAN_H_
