// Blocks of a cluster that share the iterations of a gemm's loop.
#ifndef TILELANG_TILING_ADD_PARTS_H_
#define TILELANG_TILING_ADD_PARTS_H_

#include "ir/function.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Returns the launch of a plain GEMM (tiling/plain_gemm.h) whose clusters of `parts` blocks share
// the iterations of a tile: the grid gets another dimension, along which blocks are clusters. Each
// block adds up the products of its iterations. By bulk copies between shared memories it sends
// each other block the rows (kM) or columns (kN) of the tile that this one completes. To its own it
// adds the parts of the others: first of the next block in the cluster, last of the previous one.
// Sums are therefore the same each time, although they differ from the sums of one block. Each
// block then executes the statements after the loop for its own rows or columns.
//
// Null where this is not possible: the sums must begin with zero, the loop must have all uses of
// its tiles, those statements must treat rows or columns one by one (tiling/tile_cutter.h), and
// threads must hold rows or columns in 8s in registers of fixed numbers. wgmma does so with rows of
// the transposed product and columns of the other one, tensor memory with columns.
ir::Stmt WithParts(const ir::Func& func, const ir::KernelLaunchNode* launch, int64_t parts,
                   ir::GemmDim along);

// Returns the bytes of shared memory that each of so many blocks takes for the exchange, beside its
// operands: it sends its sums to the others, receives theirs, and stages its part of the results.
// Takes the bytes of the sums of a tile, and of its results.
inline int64_t BytesOfExchange(int64_t sums, int64_t results, int64_t parts) {
  return (2 * (parts - 1) * sums + results) / parts;
}

// Returns the launch with the transposed product, whose rows are in registers of fixed numbers.
ir::Stmt Transposed(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ADD_PARTS_H_
