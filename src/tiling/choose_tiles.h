#ifndef TILELANG_TILING_CHOOSE_TILES_H_
#define TILELANG_TILING_CHOOSE_TILES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Chooses the tiles of straightforward GEMMs (tiling/plain_gemm.h), on targets with wgmma or
// tcgen05. A target has rules (tiling/tile_rules.h): candidates with the time that its model
// predicts, and how to rewrite a program to one of them.
// The rules for wgmma (tiling/wgmma_rules.cc) know wider tiles of grids of more than a wave, tiles
// that all run at the same time, and blocks that share the iterations of a tile;
// tiling/persist_blocks.h follows. The rules for tcgen05 (tiling/tcgen05_rules.cc) know columns,
// pairs of blocks, stages of the loop over K, blocks that share iterations, and blocks that compute
// several tiles in turn.
//
// The best candidate to which a program can be rewritten is chosen: TileCutter gives tiles other
// extents if each statement treats rows and columns apart. If sizes are dynamic, there are several
// kernels (tiling/call_kernels.h), of which the host runs one. The tiles of the program are a
// candidate like others. The pass options tl.tile_columns, tl.tile_pairs and tl.tile_parts
// (ir/settings.h) leave only the candidates that agree with them. Remarks state the choice and what
// excludes a better candidate.
//
// Threads may compute operands, such as weights of few bits, on targets with tcgen05.
//
// GEMMs that the tensor memory accelerator cannot load, in clusters of the program, or with roles
// of its own stay as they are. Scale factors must be in atoms, into which tiling/pack_factors.h
// brings them. On sm_80 and sm_120a the tiles of the program are computed as written.
ir::Func ChooseTiles(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_CHOOSE_TILES_H_
