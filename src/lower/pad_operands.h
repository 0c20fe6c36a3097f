#ifndef TILELANG_LOWER_PAD_OPERANDS_H_
#define TILELANG_LOWER_PAD_OPERANDS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Pads gemm operands in shared memory with zeros, so that tensor cores can compute every extent.
//
// K: every tensor-core instruction (mma.sync, wgmma, tcgen05.mma) multiplies 32 bytes of K at a
// time. Attention with a head dimension of 72 in bfloat16 has 144 bytes of K in Q K^T: without the
// padding, no tensor core can compute it. The pass enlarges the tiles of both operands, on all
// targets.
//
// N: tcgen05.mma with A in tensor memory computes columns in steps of 16. P V of that attention has
// 72 columns. The pass enlarges the tile of B on targets with tcgen05; StageAccumulator gives C as
// many columns in tensor memory. On targets with wgmma, rows of B that lie along N get a multiple
// of 32 bytes as well: TMA can swizzle such rows, and loads them in half as many boxes or fewer.
//
// Rows: TMA loads a row in boxes of the bytes that it swizzles, 128 at most, about as fast as it
// loads boxes of 128 bytes. The pass pads rows to whole lines of 128 bytes where they are then half
// as many boxes or fewer: 72 columns of bfloat16 get 128 instead of 80, two boxes instead of five.
// The gemm does not read the new columns. Rows stay as they are where shared memory has no room.
//
// A copy from a tensor whose dimension ends where the tile ends is extended: elements outside of
// the tensor are zeros. After any other write of the tile, the pass fills the new elements itself.
//
// A gemm keeps its operands, and the remark of its instruction names the reason, where
//   - an operand of K lies in a fragment or in tensor memory, has a layout from the program, or is
//     used through its address;
//   - the gemm has scale factors or metadata, or the program waits for it or for its copies.
ir::Func PadOperands(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_PAD_OPERANDS_H_
