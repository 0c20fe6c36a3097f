// Ranges of rows of GEMMs whose rows are dynamic (known only at launch), and the tiles for each.
#ifndef TILELANG_TILING_ROW_RANGES_H_
#define TILELANG_TILING_ROW_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "target/target.h"
#include "tiling/gemm_problem.h"
#include "tiling/tcgen05_tiles.h"
#include "tiling/tile_settings.h"

namespace tilelang::tiling {

// Calls of at most `most` rows (kAnyExtent: no limit), and of more than the range before has.
struct RowRange {
  int64_t most;
  Tcgen05Tiles tiles;  // `clocks`: of a call of the most rows, or of the most that are considered
};

// Divides the rows of a GEMM into at most `count` ranges, the fewest rows first, and chooses the
// tiles of each among the ones that the settings allow. The model of tiling/tcgen05_tiles.h
// predicts calls of 16 to 16384 rows. The ranges and tiles are the ones for which these calls take
// the least time above the time of their own best tiles, where a range has to save a tenth of a
// call: each is a kernel to compile.
//
// `applies` returns whether the program can be rewritten to the tiles for calls of at most so many
// rows. Returns no ranges if so few have no tiles for all calls.
std::vector<RowRange> DivideRows(const GemmProblem& problem, const Target& target,
                                 const TileSettings& settings, size_t count,
                                 const std::function<bool(const RowRange&)>& applies);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ROW_RANGES_H_
