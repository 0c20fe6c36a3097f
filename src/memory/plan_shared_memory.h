// Places of buffers in the CTA's shared memory.
#ifndef TILELANG_MEMORY_PLAN_SHARED_MEMORY_H_
#define TILELANG_MEMORY_PLAN_SHARED_MEMORY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::memory {

// An attribute (true) of a buffer in a kernel without roles of its own.
inline constexpr const char* kOverlays = "overlays";
// An attribute (true) of a buffer that only roles beside the program's threads touch. They have
// used it for the last time when threads use a buffer with kOverlays for the first time.
inline constexpr const char* kOverlaid = "overlaid";
// An attribute of a shared buffer whose size is known at the call: its bytes (Expr of parameters).
// Its shape is the most that a block may have.
inline constexpr const char* kBytesAtCall = "bytes_at_call";
// An attribute (bool) of functions. True: warps in roles of the program have their accesses in the
// order of the text, so that tiles whose lives end share their bytes with later ones. Somebody must
// prove it of the result: verify::VerifySynchronization can. False: this was tried in vain.
inline constexpr const char* kRolesShare = "roles_share_memory";

// Sets attrs["smem_offsets"] : Map<Buffer, int> and attrs["dyn_smem_bytes"] : int of each launch,
// in bytes from the start of dynamic shared memory, which is aligned to 1024. If tiles have sizes
// that are known at the call, also sets attrs["smem_at_call"] : Expr, the bytes that a launch asks
// for, and attrs["smem_offsets_at_call"] : Map<Buffer, Expr> of the tiles behind the first of them.
//
// Buffers that are never live at the same time share bytes. As far as it adds no bytes, a buffer
// takes bytes whose last use was long ago: the slices of a result lie apart in the bytes of the
// operands, and none waits for the store of the slice before it. A buffer lives from its first
// access to its last one, through every loop around an access that does not also hold its
// allocation, through every branch that only some threads take, and until a thread waits for the
// barrier of an asynchronous access. Kernels whose warps wait for each other inside branches share
// nothing, because accesses of warps in different roles have no order, unless the function has the
// attribute kRolesShare. mbarriers live until the end.
//
// A buffer with the attribute kOverlays may also take bytes of buffers that its own threads have
// used for the last time, even if other threads use them, too: the other threads load the buffers,
// and the owner of the new buffer has waited for every load. It may also take bytes of buffers with
// the attribute kOverlaid that its own threads do not touch. If memory is too small otherwise, all
// tiles that are used only outside of loops may do so, in a kernel without barriers and waits of
// its own; the tiles of an epilogue then take the bytes of the operands.
//
// The tile with the attribute kBytesAtCall lies behind all others; a launch has at most one. The
// launch then gets attrs["smem_at_call"]: Expr, the bytes that it asks for.
//
// attrs["align"] of a buffer gives its alignment in bytes, 16 by default. Raises ResourceError,
// listing every buffer, if the target has too little memory.
ir::Func PlanSharedMemory(const ir::Func& func, const Target& target);

}  // namespace tilelang::memory

#endif  // TILELANG_MEMORY_PLAN_SHARED_MEMORY_H_
