// A product of tiles, and what it is made of.
#ifndef TILELANG_IR_GEMM_H_
#define TILELANG_IR_GEMM_H_

#include <functional>
#include <optional>
#include <vector>

#include "ir/tile_op.h"

namespace tilelang::ir {

// What an operand is to the product C (+)= A @ B. What each is read or written for, and along which
// dimensions it lies, is one table (gemm.cc).
enum class GemmOperandKind : uint8_t { kA, kB, kC };

// The dimensions of a product: C is M x N, and K is summed over.
enum class GemmDim : uint8_t { kM, kN, kK };

// A matrix of a gemm: the last two dimensions of a region, whose others have extent 1.
class GemmOperandNode : public ffi::Object {
 public:
  int64_t kind = 0;
  Region region;
  bool transposed = false;  // columns lie before rows

  GemmOperandKind operand_kind() const { return static_cast<GemmOperandKind>(kind); }
  const char* name() const;
  const Buffer& buffer() const { return region->buffer; }
  // C, which the gemm writes, and reads unless it clears it. All others it only reads.
  bool IsResult() const;
  // The dimension of the region that lies along `dim`; nothing: none does.
  std::optional<size_t> DimAlong(GemmDim dim) const;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.GemmOperand", GemmOperandNode, ffi::Object);
};
class GemmOperand : public ffi::ObjectRef {
 public:
  GemmOperand(GemmOperandKind kind, Region region, bool transposed = false);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(GemmOperand, ffi::ObjectRef, GemmOperandNode);
};

// An annotation of gemms.
inline constexpr const char* kPromoteEvery = "promote_every";

// C (+)= A @ B. clear_accum: bool expression, whether C is overwritten. mbar: a Load of a
// "shared.barrier" element on which completion arrives, null when the compiler waits. annotations:
// policy (int), is_tcgen05 (bool: T.tcgen05_gemm, issue only), wg_wait (int: groups of wgmma that
// may stay in flight after it, -1 for all, 0 when absent), is_wgmma (bool: T.wgmma_gemm),
// promote_every (int: of K; so many are summed by the instruction, and these sums in registers).
class GemmNode : public TileOpNode {
 public:
  Array<GemmOperand> operands;  // each kind once, in their order
  Expr clear_accum;
  Expr mbar;
  Map<String, Any> annotations;

  const GemmOperandNode* Operand(GemmOperandKind kind) const {
    return operands[static_cast<int64_t>(kind)].get();
  }
  // What it writes, and all else.
  const Region& result() const;
  std::vector<const GemmOperandNode*> Inputs() const;
  // Whether the tile is one of its inputs, or any of its operands.
  bool HasInput(const Buffer& tile) const;
  bool HasOperand(const Buffer& tile) const;
  // The extent of K.
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
       Span span = Span());
  // The gemm `op` of other operands.
  Gemm(const GemmNode* op, Array<GemmOperand> operands);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Gemm, Stmt, GemmNode);
};

// Whether a gemm overwrites C for certain where it runs first: in the first iteration of `loop`,
// which is null for a gemm in none.
bool ClearsFirst(const GemmNode* gemm, const ForNode* loop);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_GEMM_H_
