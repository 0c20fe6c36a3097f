// The operands of tile operators fit together.
#include <algorithm>

#include "check/check_parts.h"
#include "ir/error.h"
#include "ir/padded.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/copy_scales.h"
#include "op/cta_pair.h"

namespace tilelang::check {

using ir::Expr;

namespace {

using Extents = std::vector<Expr>;

// Returns the extents of a region, except extents of 1.
Extents Significant(const ir::Region& region) {
  Extents extents;
  for (const Expr& e : region->extents) {
    if (!ir::IsConst(e, 1)) extents.push_back(e);
  }
  return extents;
}

std::string Text(const Extents& extents) {
  std::string text = "(";
  for (size_t i = 0; i < extents.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ir::Print(extents[i]);
  }
  return text + ")";
}

bool Differ(const Expr& a, const Expr& b) {
  return ir::AsInt(a) && ir::AsInt(b) && ir::AsInt(a) != ir::AsInt(b);
}

bool Differ(const Extents& a, const Extents& b) {
  if (a.size() != b.size()) return true;
  for (size_t i = 0; i < a.size(); ++i) {
    if (Differ(a[i], b[i])) return true;
  }
  return false;
}

// Returns whether C may sum products of these operands. It has a type in which the tensor cores sum
// (PTX ISA, mma and tcgen05.mma), or a wider one.
bool Accumulates(ir::DType operand, ir::DType accumulator) {
  if (ir::IsIntegral(operand)) {
    return ir::IsIntegral(accumulator) && accumulator.bits >= std::max(32, int{operand.bits});
  }
  if (accumulator == ir::dtypes::kFloat64) return true;
  if (operand == ir::dtypes::kFloat64) return false;
  bool half = accumulator == ir::dtypes::kFloat16 &&
              (operand == ir::dtypes::kFloat16 || ir::IsFloat8(operand));
  return half || accumulator == ir::dtypes::kFloat32;
}

bool IsOperand(ir::DType t) {
  return t.lanes == 1 && t.bits >= 8 && !ir::IsBool(t) && (ir::IsFloat(t) || ir::IsIntegral(t));
}

class TileOpChecker : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  void Visit(const ir::CopyNode* op) override {
    RefuseBarrier("T.copy", op->src, op->span);
    RefuseBarrier("T.copy", op->dst, op->span);
    // Python has seen to the extents.
    if (op::IsScaleCopy(op) || ir::PaddedType(op) != nullptr) return;
    Extents src = Significant(op->src), dst = Significant(op->dst);
    if (!Differ(src, dst)) return;
    TL_USER_ERROR(kShape, op->span,
                  "T.copy: the source " << ir::Print(op->src) << " has shape " << Text(src)
                                        << ", but the destination " << ir::Print(op->dst)
                                        << " has shape " << Text(dst)
                                        << "; slice both to the same extents");
  }

  void Visit(const ir::FillNode* op) override { RefuseBarrier("T.fill", op->dst, op->span); }

  void Visit(const ir::ReduceNode* op) override {
    const ir::Array<Expr>& extents = op->src->extents;
    int64_t rank = static_cast<int64_t>(extents.size());
    if (op->dim < 0 || op->dim >= rank) {
      TL_USER_ERROR(kShape, op->span,
                    "reduction over dimension " << op->dim << " of " << Describe(op->src->buffer)
                                                << " of rank " << rank);
    }
    int64_t partials = op->Partials();
    if (partials > 1 && *ir::AsInt(extents[op->dim]) % partials != 0) {
      TL_USER_ERROR(kShape, op->span,
                    "reduction of " << ir::Print(op->src) << " over dimension " << op->dim
                                    << " into " << partials << " partial results of each row: "
                                    << *ir::AsInt(extents[op->dim]) << " elements cannot be "
                                    << "divided equally");
    }
    Extents expected;
    for (int64_t d = 0; d < rank; ++d) {
      if (d != op->dim && !ir::IsConst(extents[d], 1)) expected.push_back(extents[d]);
    }
    if (partials == 1 && Differ(expected, Significant(op->dst))) {
      TL_USER_ERROR(kShape, op->span,
                    "reduction of " << ir::Print(op->src) << " over dimension " << op->dim
                                    << " gives a tile of shape " << Text(expected) << ", but "
                                    << ir::Print(op->dst) << " has shape "
                                    << Text(Significant(op->dst)));
    }
    CheckReducedType(op);
  }

  void Visit(const ir::GemmNode* op) override {
    CheckGemmShapes(op);
    CheckGemmTypes(op);
    CheckPromotion(op);
    for (const ir::GemmOperand& operand : op->operands) {
      const ir::Buffer& buffer = operand->buffer();
      if (!buffer.IsGlobal() && !buffer.IsLocal() && !buffer.IsBarrier()) continue;
      TL_USER_ERROR(kScope, op->span,
                    "T.gemm on " << Describe(buffer)
                                 << "; operands must lie in shared memory, fragments or tensor "
                                    "memory: T.copy it there first");
    }
  }

 private:
  void RefuseBarrier(const char* what, const ir::Region& region, const ir::Span& span) {
    if (!region->buffer.IsBarrier()) return;
    TL_USER_ERROR(kScope, span,
                  what << " cannot use the barrier " << std::string(region->buffer->name)
                       << "; only T.mbarrier_* functions take barriers");
  }

  void CheckReducedType(const ir::ReduceNode* op) {
    ir::DType t = op->src->buffer->dtype;
    bool bitwise = std::string(op->op).rfind("bit", 0) == 0;
    if (op->op == "any" || op->op == "all") return;
    if (bitwise ? ir::IsIntegral(t) : !ir::IsBool(t)) return;
    TL_USER_ERROR(
        kDType, op->span,
        "reduction \""
            << std::string(op->op) << "\" of " << Describe(op->src->buffer)
            << (bitwise ? "; bit operations take integers"
                        : "; bools have no arithmetic: copy them to int32, or ask T.reduce_any "
                          "or T.reduce_all"));
  }

  // Returns the last two extents. The extents before them must be 1.
  Extents Matrix(const ir::GemmNode* op, const ir::Region& region, const char* name) {
    size_t rank = region->extents.size();
    bool matrix = rank >= 2;
    for (size_t d = 0; d + 2 < rank; ++d) matrix = matrix && ir::IsConst(region->extents[d], 1);
    if (!matrix) {
      TL_USER_ERROR(kShape, op->span,
                    name << " of T.gemm is " << ir::Print(region) << " of "
                         << Describe(region->buffer)
                         << ", which is not a matrix: it needs two dimensions, and dimensions "
                            "before them must have extent 1");
    }
    return {region->extents[rank - 2], region->extents[rank - 1]};
  }

  void CheckGemmShapes(const ir::GemmNode* op) {
    std::string shapes;
    for (const ir::GemmOperand& operand : op->operands) {
      if (!operand->IsMatrix()) continue;
      Extents extents = Matrix(op, operand->region, operand->name());
      shapes += (shapes.empty() ? "" : ", ") + std::string(operand->name()) + " " + Text(extents) +
                (operand->transposed ? " transposed" : "");
    }
    CheckExtents(op, ir::GemmDim::kK, "K", shapes);
    CheckExtents(op, ir::GemmDim::kM, "M", shapes);
    CheckExtents(op, ir::GemmDim::kN, "N", shapes);
  }

  // The operands along a dimension agree on its extent.
  void CheckExtents(const ir::GemmNode* op, ir::GemmDim dim, const char* name,
                    const std::string& shapes) {
    Expr expected;
    std::string of;
    for (const ir::GemmOperand& operand : op->operands) {
      auto along = operand->DimAlong(dim);
      if (!along) continue;
      Expr extent = operand->region->extents[*along];
      std::string whose = operand->name();
      bool half = op->IsSparse() && operand.get() == op->Inputs().front();
      if (dim == ir::GemmDim::kK && half) {
        extent = extent * ir::Const(extent.dtype(), 2);
        whose = "what " + whose + " stands for";
      }
      if (dim == ir::GemmDim::kN && !operand->IsResult() && op::IsInPairs(op)) {
        extent = extent * ir::Const(extent.dtype(), op::kPairBlocks);
        whose = "the " + whose + " of both blocks";
      }
      if (expected.defined() && Differ(expected, extent)) {
        TL_USER_ERROR(kShape, op->span,
                      "T.gemm: " << name << " is " << ir::Print(expected) << " in " << of << " and "
                                 << ir::Print(extent) << " in " << whose << " (" << shapes
                                 << "); A is (M, K), B (K, N), C (M, N), with transpose_A=True "
                                    "(K, M), with transpose_B=True (N, K)");
      }
      expected = extent;
      of = whose;
    }
  }

  // promote_every=
  void CheckPromotion(const ir::GemmNode* op) {
    auto given = op->annotations.Get(ir::kPromoteEvery);
    if (!given) return;
    auto step = (*given).cast<int64_t>();
    auto refuse = [&](ir::ErrorClass kind, const std::string& what) {
      ir::ThrowUserError(kind, op->span,
                         "T.gemm with promote_every=" + std::to_string(step) + what);
    };
    const ir::Buffer& c = op->result()->buffer;
    if (!c.IsFragment() || c->dtype != ir::dtypes::kFloat32) {
      refuse(ir::ErrorClass::kDType, " into " + Describe(c) +
                                         "; partial sums are added in registers: C is a fragment "
                                         "of float32");
    }
    if (op->mbar.defined() || op->annotations.count("wg_wait") != 0) {
      refuse(ir::ErrorClass::kSemantics,
             " adds its result to C, so that it must wait for it: leave out mbar= and wg_wait=");
    }
    auto k = ir::AsInt(op->Depth());
    if (k && *k % step == 0) return;
    refuse(ir::ErrorClass::kShape,
           ": K = " + (k ? std::to_string(*k) : std::string("of unknown size")) +
               " is no multiple of it; choose a divisor of the K of the tiles");
  }

  void CheckGemmTypes(const ir::GemmNode* op) {
    // Python has seen to the pairs of elements and factors.
    if (op->IsScaled() || ir::HasPaddedInput(op)) return;
    std::vector<const ir::GemmOperandNode*> inputs = op->Inputs();
    ir::DType a = inputs[0]->buffer()->dtype, b = inputs[1]->buffer()->dtype;
    ir::DType c = op->result()->buffer->dtype;
    bool mixed = (ir::IsFloat8(a) && ir::IsFloat8(b)) || (ir::IsIntegral(a) && ir::IsIntegral(b));
    if (!IsOperand(a) || !IsOperand(b) || (a != b && !mixed)) {
      TL_USER_ERROR(kDType, op->span,
                    "T.gemm: A is " << ir::ToString(a) << " and B is " << ir::ToString(b)
                                    << "; both must have the same float type, float8 types, or "
                                       "integer types of at least 8 bits. T.copy to a tile of "
                                       "another type converts the elements");
    }
    if (Accumulates(a, c)) return;
    TL_USER_ERROR(
        kDType, op->span,
        "T.gemm: C is " << ir::ToString(c) << ", but a product of " << ir::ToString(a)
                        << " is accumulated in "
                        << (ir::IsIntegral(a) ? "int32, or in the type of wider operands"
                                              : "float32 or float64")
                        << ". Allocate C with that type, and convert it when you store it");
  }
};

}  // namespace

void CheckTileOps(const ir::Func& func) { TileOpChecker().VisitStmt(func->body); }

}  // namespace tilelang::check
