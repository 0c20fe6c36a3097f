// A, B and C by name, for the instructions that compute gemms. Others ask what an operand is for
// (ir/gemm.h).
#ifndef TILELANG_OP_GEMM_OPERANDS_H_
#define TILELANG_OP_GEMM_OPERANDS_H_

#include "ir/gemm.h"

namespace tilelang::op {

inline const ir::Region& MatrixA(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kA)->region;
}
inline const ir::Region& MatrixB(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kB)->region;
}
inline const ir::Region& MatrixC(const ir::GemmNode* op) { return op->result(); }
// Returns the metadata of a sparse GEMM.
inline const ir::Region& Metadata(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kMetadata)->region;
}

// A is K x M, B is N x K.
inline bool IsTransposedA(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kA)->transposed;
}
inline bool IsTransposedB(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kB)->transposed;
}

// Return the formats of the elements of A and B, and of their scale factors.
inline ir::GemmFormat FormatOfMatrices(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kA)->element_format();
}
inline ir::GemmFormat FormatOfScales(const ir::GemmNode* op) {
  return op->Operand(ir::GemmOperandKind::kScaleA)->element_format();
}

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_OPERANDS_H_
