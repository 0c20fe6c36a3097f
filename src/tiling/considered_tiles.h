// The list of tiles that a choice considered.
#ifndef TILELANG_TILING_CONSIDERED_TILES_H_
#define TILELANG_TILING_CONSIDERED_TILES_H_

#include <string>
#include <vector>

#include "ir/stmt.h"
#include "tiling/candidate.h"

namespace tilelang::tiling {

struct ConsideredTiles {
  Candidate candidate;
  bool chosen = false;
  std::string reason;  // what excludes them; empty if nothing does, or if they were not tried
};

// Returns `s` with these tiles noted at its launches, for kernel.schedule(): the chosen ones, those
// that are excluded, and the next few of less time than the others. Tiles
// that the user or the GPU excludes are not noted.
ir::Stmt WithConsidered(const ir::Stmt& s, std::vector<ConsideredTiles> tiles);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_CONSIDERED_TILES_H_
