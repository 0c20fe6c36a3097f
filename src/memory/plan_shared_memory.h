// Places of buffers in the CTA's shared memory.
#ifndef TILELANG_MEMORY_PLAN_SHARED_MEMORY_H_
#define TILELANG_MEMORY_PLAN_SHARED_MEMORY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::memory {

// An attribute (true) of a buffer of the compiler's in a kernel without roles of its own.
inline constexpr const char* kOverlays = "overlays";

// Sets attrs["smem_offsets"] : Map<Buffer, int> and attrs["dyn_smem_bytes"] : int of each launch,
// in bytes from the start of dynamic shared memory, which is aligned to 1024.
//
// Buffers that are never live at once share bytes: a buffer lives from its first access to its
// last, through every loop around an access that does not also hold its allocation, through
// every branch that only some threads take, and until the barrier of an asynchronous access is
// waited for. Kernels whose warps wait for each other inside branches share nothing, because
// between warps of different roles there is no first and last. mbarriers live for good.
// A buffer with the attribute kOverlays may also take bytes of those that its own threads have used
// for the last time, although they are of other threads, too: those load them, and the owner of the
// buffer has waited for every load.
// Where memory is too little otherwise, all tiles that are used outside of loops alone may do so,
// in a kernel without barriers and waits of its own: those of an epilogue take the operands' bytes.
// attrs["align"] of a buffer gives its alignment in bytes, 16 by default.
// ResourceError when the target has too little; it lists every buffer.
ir::Func PlanSharedMemory(const ir::Func& func, const Target& target);

}  // namespace tilelang::memory

#endif  // TILELANG_MEMORY_PLAN_SHARED_MEMORY_H_
