#ifndef TILELANG_LOWER_STAGE_LOADS_H_
#define TILELANG_LOWER_STAGE_LOADS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Lets TMA load ahead the boxes of tensors that T.Parallel loops of a pipelined loop with GEMMs
// read element by element, such as a bias of scores:
//
//   for k in Pipelined(..):                      for k in Pipelined(..):
//     gemm(.., S)                                  gemm(.., S)
//     for i, j in Parallel(M, N):                  copy(B[y:y + M, k * N:k * N + N], b)
//       S[i, j] += B[y + i, k * N + j]             for i, j in Parallel(M, N):
//                                                    S[i, j] += b[i, j]
//
// A thread has a row of a result in tensor memory, so the lanes of a warp would load from 32 rows
// in each instruction, and wait for memory in each iteration. Applies where the launch does not
// write the tensor, TMA can load the box, and the tile fits shared memory beside the others. A box
// has one variable of the loop for each of its dimensions. The copy reads elements that the loop
// does not use, which lie in the tensor or are zero.
//
// Applies to targets with tensor memory (sm_100a). On sm_80, sm_90a and sm_120a the lanes of a warp
// share the rows of a fragment, and the loop stays as it is. A remark at the loop states it, and
// the pass option tl.disable_load_staging turns it off.
ir::Func StageLoads(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_STAGE_LOADS_H_
