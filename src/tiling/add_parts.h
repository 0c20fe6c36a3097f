// Blocks of a cluster that share the iterations of a gemm's loop.
#ifndef TILELANG_TILING_ADD_PARTS_H_
#define TILELANG_TILING_ADD_PARTS_H_

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Whether blocks can share the iterations of a plain gemm (tiling/plain_gemm.h) of so many, and
// each of them store as many rows (kM) or columns (kN) of the tile: the launch does nothing else
// than to copy the result to its tensor, once, and threads hold rows or columns in 8s in registers
// of fixed numbers. wgmma does so with rows of the transposed product, tensor memory with columns.
bool CanShareIterations(const ir::KernelLaunchNode* launch, const PlainGemm& plain, int64_t parts,
                        ir::GemmDim along);

// The launch with its product transposed and, where parts are more than one, marked by kPartsOfK
// for AddParts.
ir::Stmt InParts(const ir::KernelLaunchNode* launch, int64_t parts);

// Bytes of shared memory that each of so many blocks takes for that, beside its operands.
int64_t BytesOfExchange(const PlainGemm& plain, int64_t parts);

// Returns the launch whose clusters of `parts` blocks share the iterations: the grid gets another
// dimension, along which blocks are clusters. Each block adds up the products of its iterations,
// sends to each other block, by a bulk copy between shared memories, what that one stores, and adds
// to its own rows or columns those of the others: of the block after it in the cluster first, of
// the one before it last. So sums are the same each time, though not those of one block.
ir::Stmt WithParts(const ir::KernelLaunchNode* launch, int64_t parts, ir::GemmDim along);

// Carries out kPartsOfK, by rows.
ir::Func AddParts(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ADD_PARTS_H_
