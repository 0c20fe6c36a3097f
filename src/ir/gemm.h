// A product of tiles, and what it is made of.
#ifndef TILELANG_IR_GEMM_H_
#define TILELANG_IR_GEMM_H_

#include <functional>
#include <optional>
#include <vector>

#include "ir/tile_op.h"

namespace tilelang::ir {

// The kind of an operand of the product C (+)= A @ B. One table (gemm.cc) says whether each kind is
// read or written, and along which dimensions it lies. Block-scaled GEMMs have scale factors, each
// for a row of A, or a column of B, and a block of K. The columns of tensor memory to which the
// compiler brings them are scratch. Sparse GEMMs have metadata, which say where the stored elements
// of A, half of K, lie (op/gemm_metadata.h).
enum class GemmOperandKind : uint8_t { kA, kB, kC, kScaleA, kScaleB, kScaleColumns, kMetadata };

// The format of the elements of an operand: the type of its buffer; or, if the buffer has bytes,
// ue8m0, a power of two, or two e2m1 floats of four bits, the low half first.
enum class GemmFormat : uint8_t { kOwn, kUE8M0, kE2M1x2 };

// The dimensions of a product: C is M x N, and K is summed over.
enum class GemmDim : uint8_t { kM, kN, kK };

// A matrix of a gemm: the last two dimensions of a region, whose others have extent 1. Scale
// factors: see op/gemm_scale_factors.h.
class GemmOperandNode : public ffi::Object {
 public:
  int64_t kind = 0;
  Region region;
  bool transposed = false;  // columns lie before rows
  int64_t format = 0;

  GemmOperandKind operand_kind() const { return static_cast<GemmOperandKind>(kind); }
  GemmFormat element_format() const { return static_cast<GemmFormat>(format); }
  const char* name() const;
  const Buffer& buffer() const { return region->buffer; }
  // C, which the gemm writes, and reads unless it clears it.
  bool IsResult() const;
  // Returns whether the GEMM writes the operand for itself. It only reads all others.
  bool IsScratch() const;
  bool IsMatrix() const;
  // The dimension of the region that lies along `dim`; nothing: none does.
  std::optional<size_t> DimAlong(GemmDim dim) const;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.GemmOperand", GemmOperandNode, ffi::Object);
};
class GemmOperand : public ffi::ObjectRef {
 public:
  GemmOperand(GemmOperandKind kind, Region region, bool transposed = false,
              GemmFormat format = GemmFormat::kOwn);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(GemmOperand, ffi::ObjectRef, GemmOperandNode);
};

// Annotations of gemms.
inline constexpr const char* kPromoteEvery = "promote_every";
inline constexpr const char* kTransposeProduct = "transpose_product";

// C (+)= A @ B. clear_accum: bool expression, whether C is overwritten. mbar: a Load of a
// "shared.barrier" element on which completion arrives, null when the compiler waits. annotations:
// policy (int), is_tcgen05 (bool: T.tcgen05_gemm, issue only), wg_wait (int: groups of wgmma that
// may stay in flight after it, -1 for all, 0 when absent), is_wgmma (bool: T.wgmma_gemm),
// promote_every (int, along K: the instruction sums this many, and registers sum its sums),
// transpose_product (bool, set by passes: wgmma computes C^T = B^T A^T if it can, also if rows of C
// come in multiples of 64, because columns of C then come in 64s and its rows in 8s). k_start: for
// GEMMs whose factors the program brings to tensor memory, the position of A and B in the K that
// the words of factors count; null for all others. These GEMMs have the annotations
// sf_a_granularity_k and sf_b_granularity_k (int: elements along K that share a factor).
class GemmNode : public TileOpNode {
 public:
  Array<GemmOperand> operands;  // A, B, C, and others at most once
  Expr clear_accum;
  Expr mbar;
  Map<String, Any> annotations;
  Expr k_start;

  // Null: the gemm has none.
  const GemmOperandNode* Operand(GemmOperandKind kind) const;
  bool IsScaled() const { return Operand(GemmOperandKind::kScaleA) != nullptr; }
  // Returns whether the program has brought the factors to tensor memory.
  bool HasScalesInTmem() const;
  // Return the operand that the GEMM writes, and all other operands.
  const Region& result() const;
  std::vector<const GemmOperandNode*> Inputs() const;
  // Returns whether the tile is one of its inputs.
  bool HasInput(const Buffer& tile) const;
  // A has two of each four elements along K; B all of them.
  bool IsSparse() const { return Operand(GemmOperandKind::kMetadata) != nullptr; }
  // The extent of K, in elements of the buffer of A.
  Expr Depth() const;
  // The same operands on other regions.
  Array<GemmOperand> WithRegions(
      const std::function<Region(const GemmOperandNode* operand)>& region_of) const;

  GemmNode() : TileOpNode(StmtKind::kGemm) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Gemm", GemmNode, TileOpNode);
};
class Gemm : public Stmt {
 public:
  Gemm(Array<GemmOperand> operands, Expr clear_accum, Expr mbar, Map<String, Any> annotations = {},
       Span span = Span(), Expr k_start = Expr());
  // The gemm `op` of other operands.
  Gemm(const GemmNode* op, Array<GemmOperand> operands);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Gemm, Stmt, GemmNode);
};

// Returns whether a GEMM certainly overwrites C where it runs first: in the first iteration of
// `loop`, or anywhere if `loop` is null.
bool ClearsFirst(const GemmNode* gemm, const ForNode* loop);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_GEMM_H_
