// Launches whose blocks compute one tile of the program's grid after another.
#ifndef TILELANG_TILING_TILE_SEQUENCE_H_
#define TILELANG_TILING_TILE_SEQUENCE_H_

#include <vector>

#include "ir/stmt.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// The tiles of a grid: its blocks. Other axes than the first two count whole grids of these.
struct BlockGrid {
  ir::Expr columns;
  ir::Expr rows;
  std::vector<ir::Expr> others;

  ir::Expr Tiles() const;
};
BlockGrid GridOfBlocks(const ir::KernelLaunchNode* op);

// The coordinates of a tile.
struct TilePlace {
  ir::Expr row;
  ir::Expr column;
  std::vector<ir::Expr> others;
};

// Places tile number `tile`: groups of `panel` rows, column by column inside each group.
TilePlace PlaceOf(const ir::Expr& tile, const BlockGrid& grid, int64_t panel);
// Returns statements that bind the block indices of a launch to a place.
std::vector<ir::Stmt> BindBlock(const ir::KernelLaunchNode* op, const TilePlace& place);

// Returns the rows of a panel that the launch states; 0 where it states none.
int64_t PanelOf(const ir::KernelLaunchNode* op);
// Returns the launch whose blocks have the order of the grid.
ir::KernelLaunch WithoutPanels(const ir::KernelLaunchNode* op);
// Returns the launch with one dimension of `blocks` blocks, with `body`. Its grid is empty where
// that of `op` is so by its condition.
ir::KernelLaunch InOneDimension(const ir::KernelLaunchNode* op, const ir::Var& block,
                                const ir::Expr& blocks, const std::vector<ir::Stmt>& body);

// Returns whether a block can compute several tiles in turn with the same results as one block for
// each. Only fragments and shared tiles last, each tile fills its sums anew, blocks do not see each
// other, and the loop has as many iterations in each.
bool CanTakeTurns(const ir::KernelLaunchNode* op, const PlainGemm& plain);

// Says how many blocks take the tiles of a grid: `clusters` clusters of `cluster` blocks, whose
// blocks take tiles one below the other.
struct TileSequence {
  int64_t clusters;
  int64_t cluster = 1;
};

// A launch of such blocks, and the expression for the rank of a block in its cluster.
struct SequencedLaunch {
  ir::KernelLaunch launch;
  ir::Expr rank;
};
// Returns the launch whose blocks compute the first `tiles` tiles of `grid` in turn, or all where
// `tiles` is null. Where the rows of the grid are no multiple of a cluster's, its last blocks
// compute tiles behind the grid, which must store nothing.
SequencedLaunch InSequence(const ir::KernelLaunchNode* op, const TileSequence& sequence,
                           const ir::Expr& tiles = ir::Expr());

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_SEQUENCE_H_
