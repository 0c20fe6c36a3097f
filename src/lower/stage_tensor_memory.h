#ifndef TILELANG_LOWER_STAGE_TENSOR_MEMORY_H_
#define TILELANG_LOWER_STAGE_TENSOR_MEMORY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// An attribute of functions (int): how many fragments that gemms accumulate in stay in registers,
// the widest first, because tensor memory has no room for all. Their gemms are by mma.sync.
inline constexpr const char* kAccumulatorsInRegisters = "accumulators_in_registers";

// Brings tensor-core operators and tensor-memory copies into the forms that instructions have:
//   - a fragment B of a gemm is stored to shared memory, and so is a transposed fragment A;
// and on sm_100a
//   - a fragment C lives in tensor memory while only gemms touch it, and comes back to registers
//     where anything else does, unless tcgen05.mma has no form for its gemms;
//   - a fragment A is stored to tensor memory;
//   - copies between tensor memory and anything but a fragment of its own dtype (or, into it, a
//     shared buffer that tcgen05.cp may read), fills of tensor memory, and reads of its elements
//     go through a fragment.
ir::Func StageTensorMemory(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_STAGE_TENSOR_MEMORY_H_
