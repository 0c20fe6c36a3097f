// Blocks of a cluster that share the iterations of a gemm's loop.
#ifndef TILELANG_TILING_ADD_PARTS_H_
#define TILELANG_TILING_ADD_PARTS_H_

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Returns whether `parts` blocks can share the iterations of a plain GEMM (tiling/plain_gemm.h),
// and each of them store as many rows (kM) or columns (kN) of the tile. The launch does nothing
// else than copy the result to its tensor, once, and threads hold rows or columns in 8s in
// registers of fixed numbers. wgmma does so with rows of the transposed product, tensor memory with
// columns.
bool CanShareIterations(const ir::KernelLaunchNode* launch, const PlainGemm& plain, int64_t parts,
                        ir::GemmDim along);

// The launch with its product transposed and, where parts are more than one, marked by kPartsOfK
// for AddParts.
ir::Stmt InParts(const ir::KernelLaunchNode* launch, int64_t parts);

// Bytes of shared memory that each of so many blocks takes for that, beside its operands.
int64_t BytesOfExchange(const PlainGemm& plain, int64_t parts);

// Returns the launch whose clusters of `parts` blocks share the iterations: the grid gets another
// dimension, along which blocks are clusters. Each block adds up the products of its iterations. By
// bulk copies between shared memories it sends each other block the part that this one stores. To
// its own rows or columns it adds the parts of the others: first of the next block in the cluster,
// last of the previous one. Sums are therefore the same each time, although they differ from the
// sums of one block.
ir::Stmt WithParts(const ir::KernelLaunchNode* launch, int64_t parts, ir::GemmDim along);

// Carries out kPartsOfK, by rows.
ir::Func AddParts(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ADD_PARTS_H_
