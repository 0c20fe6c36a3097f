#ifndef TILELANG_TRANSFORM_STAGE_TENSOR_MEMORY_H_
#define TILELANG_TRANSFORM_STAGE_TENSOR_MEMORY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Brings tensor-core operators and tensor-memory copies into the forms that sm_100a has:
//   - a fragment C lives in tensor memory while only gemms touch it, and comes back to registers
//     where anything else does;
//   - a fragment A is stored to tensor memory, a fragment B to shared memory;
//   - copies between tensor memory and anything but a fragment of its own dtype (or, into it, a
//     shared buffer that tcgen05.cp may read), fills of tensor memory, and reads of its elements
//     go through a fragment.
// Leaves other targets alone.
ir::Func StageTensorMemory(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_STAGE_TENSOR_MEMORY_H_
