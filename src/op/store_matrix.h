// Loops that store a fragment of a tensor-core instruction to shared memory, by stmatrix.
#ifndef TILELANG_OP_STORE_MATRIX_H_
#define TILELANG_OP_STORE_MATRIX_H_

#include <optional>

#include "op/access.h"
#include "op/parallel.h"

namespace tilelang::op {

// An attribute of calls: of each warp, so many lanes name addresses; the others' are not used.
inline constexpr const char* kAddressLanes = "address_lanes";

// Thread IR of a loop `shared[..] = fragment[..]`, converted on the way or not, to elements of 16
// bits: where each register holds an 8 x 8 matrix as accumulators of mma.sync and wgmma do, and
// the layout of shared memory keeps its rows of 16 bytes together. Nothing for other loops.
std::optional<Stmt> StoreByMatrix(const ParallelInfo& info, PhysicalBuffers* buffers, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_STORE_MATRIX_H_
