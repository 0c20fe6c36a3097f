// The metadata of sparse gemms: what the program has, and where instructions read it.
//
// The program has, for each row of A, four bits for each group of four elements of K (of two, where
// they have 32 bits), the lowest bits of an element of the metadata first. mma.sync and wgmma read
// it from registers (layout/mma_layout.h). tcgen05.mma reads it from tensor memory, one bit for
// each k, so a column of 32 bits is for 32 elements of K:
//   8 bits    lane m, bit k: an instruction, of K = 64, reads two columns
//   16 bits   lane m % 8 + 8 (k / 16) + 16 (m / 16), bit k % 16 + 16 (m / 8 % 2): rows m and m + 8
//             share the two lanes of an instruction of K = 32, which reads one of a pair of columns
// Source: PTX ISA 9.0, "tcgen05.mma: sparse matrices, metadata layout".
#ifndef TILELANG_OP_GEMM_METADATA_H_
#define TILELANG_OP_GEMM_METADATA_H_

#include <vector>

#include "ir/gemm.h"
#include "op/instruction.h"

namespace tilelang::op {

// A sparse gemm whose metadata is in shared memory, on a fragment of them.
Stmt WithMetadataInRegisters(const ir::GemmNode* op);

// Appends what brings the metadata of a gemm by tcgen05.mma to tensor memory; returns the operand
// there, words of 32 bits.
ir::GemmOperand MetadataToTmem(const ir::GemmNode* op, std::vector<Stmt>* stmts);
// Columns of it that an instruction reads.
int64_t MetadataColumnsOfInstruction(const ir::GemmNode* op);
// Says how an instruction is told that it reads metadata from the column at this address on: an
// address, and bits of its descriptor.
struct MetadataColumns {
  Expr address, selector;
};
MetadataColumns ColumnsOfMetadata(const ir::GemmNode* op, const Expr& column);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_METADATA_H_
