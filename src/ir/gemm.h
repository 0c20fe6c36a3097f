// A product of tiles, and what it is made of.
#ifndef TILELANG_IR_GEMM_H_
#define TILELANG_IR_GEMM_H_

#include <functional>
#include <optional>
#include <vector>

#include "ir/tile_op.h"

namespace tilelang::ir {

// What an operand is to the product C (+)= A @ B. What each is read or written for, and along which
// dimensions it lies, is one table (gemm.cc). Block-scaled gemms have scale factors, each of a row
// of A, or a column of B, and a block of K; the columns of tensor memory to which the compiler
// brings those are scratch. Sparse gemms have metadata, which say where the elements of A, half of
// K, lie in it (op/gemm_metadata.h).
enum class GemmOperandKind : uint8_t { kA, kB, kC, kScaleA, kScaleB, kScaleColumns, kMetadata };

// What the elements of an operand are: of the type of its buffer; or where that has bytes, ue8m0,
// a power of two, or two e2m1 floats of four bits, the low half first.
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
  // What it writes for itself. All others it only reads.
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
// promote_every (int: of K; so many are summed by the instruction, and these sums in registers),
// transpose_product (bool: of passes; wgmma computes C^T = B^T A^T where it can, also with rows of
// C in multiples of 64: columns of C in 64s, its rows in 8s). k_start: of gemms whose factors the
// program brings to tensor memory, where A and B begin in the K that the words of factors count;
// null for all others. Annotations of those: sf_a_granularity_k, sf_b_granularity_k (int: elements
// along K that share a factor).
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
  // By factors that the program has brought to tensor memory.
  bool HasScalesInTmem() const;
  // What it writes, and all else.
  const Region& result() const;
  std::vector<const GemmOperandNode*> Inputs() const;
  // Whether the tile is one of its inputs.
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

// Whether a gemm overwrites C for certain where it runs first: in the first iteration of `loop`,
// which is null for a gemm in none.
bool ClearsFirst(const GemmNode* gemm, const ForNode* loop);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_GEMM_H_
