// A way in which blocks may compute the tiles of a GEMM.
#ifndef TILELANG_TILING_CANDIDATE_H_
#define TILELANG_TILING_CANDIDATE_H_

#include <compare>
#include <cstdint>
#include <string>

#include "ir/stmt.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

// Describes what a candidate does, without what it costs.
struct TileForm {
  TileExtents tile{0, 0};   // of a block
  bool pairs = false;       // two blocks, one below the other, multiply with halves of B
  bool transposed = false;  // the instruction computes the transposed product
  int64_t parts = 1;        // blocks of a cluster that share the iterations of a tile

  auto operator<=>(const TileForm&) const = default;
};

struct Candidate {
  TileForm form;
  int64_t stages = 0;       // of the loop over K, at most; 0: later passes choose them
  int64_t tiles = 0;        // of the grid
  int64_t wave = 1;         // tiles that the GPU computes at a time
  bool any_grid = true;     // whether blocks may compute more tiles than those of a wave
  double wave_cost = 0;     // of one wave of many, in the unit of the target's model
  double cost = 0;          // of the grid beside the time of memory, in that unit
  double microseconds = 0;  // that the model predicts for the launch

  bool IsOneWave() const { return tiles <= wave; }
};

// Says why a program cannot be rewritten to a candidate.
struct Exclusion {
  Candidate candidate;
  std::string reason;  // empty where the user or the GPU excludes it
  ir::Span span;       // of the statement that the reason is about
};

// Returns the tile and, if there are some, "in pairs" and the blocks that share its iterations.
std::string Text(const TileForm& form);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_CANDIDATE_H_
