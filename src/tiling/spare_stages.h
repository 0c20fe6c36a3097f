#ifndef TILELANG_TILING_SPARE_STAGES_H_
#define TILELANG_TILING_SPARE_STAGES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Gives loops of plain GEMMs (tiling/plain_gemm.h) whose operands threads compute in shared memory
// fewer stages, down to two, and one warpgroup instead of several, where a multiprocessor then
// holds more blocks: while threads of one block wait for loads or for the tensor core, those of
// another compute. A remark names the choice.
//
// It acts on sm_100a, behind tiling/choose_tiles.h, which chooses tiles and stages of one block for
// each multiprocessor. On sm_90a and sm_120a such loops keep their stages: tiling/fit_blocks.h only
// chooses those of loops that load all operands. sm_80 has no TMA.
ir::Func SpareStages(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_SPARE_STAGES_H_
