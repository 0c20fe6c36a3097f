// Estimates the cost of the tiles of a GEMM's grid. All passes choose among tiles by this estimate.
#ifndef TILELANG_TILING_TILE_COST_H_
#define TILELANG_TILING_TILE_COST_H_

#include <compare>

#include "target/target.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Tiles of so many elements that cover an extent, or steps of so many.
inline int64_t CeilDiv(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

struct TileExtents {
  int64_t rows;
  int64_t columns;

  auto operator<=>(const TileExtents&) const = default;
};

// Elements of 16 bits along K of an iteration.
inline constexpr int64_t kDepthOfStep = 64;
// The time of L2 for 128 lines, relative to that of the tensor core for 128 x 128 x 64 products.
inline constexpr double kLines = 0.59;

// The cost of beginning and ending as pairs of blocks, about 0.8 us: 56 GEMMs of 48 to 14792 along
// K on an H200, as pairs and as single blocks.
inline constexpr double kPairing = 3;

// The cost of 128 bytes of a tile of A or B in the L2 cache, relative to one of its lines. It is
// more if they lie in two lines, because rows of the tensor are no multiple of 128 bytes, and most
// if they begin between sectors of 32 bytes.
struct TileLines {
  double of_a = 1;
  double of_b = 1;
};

// A grid of tiles of 16-bit operands on a target with wgmma, of which a multiprocessor computes one
// after another, each for a time relative to that of the tensor core for 128 x 128 elements and 64
// of K. It is the longest one of three: of the products, of L2 for the operands, and of an
// iteration of the loop. Measured on an H100, the first two are within a tenth for tiles of 128 x
// 128 to 192 x 192 and K of 768 to 6144. The last wave takes as long as a full one.
struct TileGrid {
  int64_t tiles;
  TileExtents tile;
  TileLines lines;
  double iterations;          // of 64 along K
  int64_t rows = 0;           // of the tensor of A; 0: known at the call only
  int64_t matrices = 0;       // that threads read elements of where they hold sums
  bool transposed = false;    // the product, although its tiles have rows in 64s
  double tensor_share = 1;    // of the tensor cores that the threads of a tile reach
  double line_time = kLines;  // of L2, of 128 lines

  double CostOfTile() const;
  // Returns the cost of reading the matrices.
  double CostOfEpilogue() const;
  double Cost(const Target& target) const;
  // Returns the cost of a tile whose iterations `parts` blocks of a cluster share, and the cost of
  // their exchange of float32 sums. The exchange was measured on an H200, with tiles of 16 x 64 to
  // 128 x 128 and two to four blocks.
  double CostOfPart(int64_t parts, const Target& target) const;
  double CostOfExchange(int64_t parts) const;
  // Returns the same grid where two blocks, of tiles one below the other in `rows` rows, load tiles
  // of B together: half of its lines for each, and as many tiles of both. They wait for each other.
  TileGrid SharingLoads(int64_t rows) const;
  // Returns whether blocks of one tile each take less time if pairs of them load tiles of B
  // together, and all pairs run at a time; and the cost of a tile where they do so if they gain.
  // `rows` is 0 where blocks cannot load together.
  bool GainsByPairs(int64_t rows, const Target& target) const;
  double CostOfOneTile(int64_t rows, const Target& target) const;
};

// The tiles of a launch whose grid is constant.
TileGrid GridOf(const ir::KernelLaunchNode* launch, const PlainGemm& plain);

// The time until the first tiles of operands are there, and in which a launch begins and ends:
// 2.2 us.
inline constexpr double kStart = 8;
// Returns the time of a launch whose grid has this cost.
inline double MicrosecondsOf(double cost) { return (kStart + cost) * 2.2 / kStart; }

// A choice other than the program's has to be better by more than the estimate may err.
inline constexpr double kClearGain = 0.97;

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_COST_H_
