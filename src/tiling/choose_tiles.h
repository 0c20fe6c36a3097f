#ifndef TILELANG_TILING_CHOOSE_TILES_H_
#define TILELANG_TILING_CHOOSE_TILES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Chooses the tiles of straightforward GEMMs (tiling/plain_gemm.h).
//
// On targets with wgmma it looks for tiles with which all blocks run at the same time
// (tiling/one_wave.h), for blocks that share the iterations of a tile (tiling/add_parts.h), and for
// wider tiles of larger grids (tiling/wide_tiles.h). tiling/persist_blocks.h follows it.
//
// On targets with tcgen05 it chooses their columns, whether pairs of blocks compute them, the
// stages of the loop over K, and whether a block computes several tiles in turn. It tries the
// candidates of tiling/tcgen05_tiles.h from the cheapest on and takes the first one to which the
// program can be rewritten:
//   - TileCutter gives the tiles other extents, where each statement treats rows and columns apart;
//   - pairs need the same tile of B in both blocks (tiling/pair_blocks.h);
//   - tiles in turn need blocks that do not see each other (tiling/tile_sequence.h).
// If the rows are dynamic, it chooses tiles for ranges of rows (tiling/row_ranges.h) and writes a
// launch for each. The host runs the launch of the call's range.
//
// The tiles of the program are a candidate like others. The pass options tl.tile_columns,
// tl.tile_pairs and tl.tile_parts (ir/settings.h) leave only the candidates that agree with them.
// Remarks state the choice.
//
// GEMMs that the tensor memory accelerator cannot load, with operands in fragments, in clusters of
// the program, or with roles of its own stay as they are. Scale factors must be in atoms, into
// which tiling/pack_factors.h brings them. On sm_80 and sm_120a the tiles of the program are
// computed as written.
ir::Func ChooseTiles(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_CHOOSE_TILES_H_
