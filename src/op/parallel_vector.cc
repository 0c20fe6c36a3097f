// How wide the memory accesses of a parallel loop may be.
#include <algorithm>

#include "ir/error.h"
#include "ir/visitor.h"
#include "op/access.h"
#include "op/index_eval.h"
#include "op/parallel.h"

namespace tilelang::op {

namespace {

// kUnaligned: consecutive elements that do not begin at a multiple of the width.
enum class Shape { kInvariant, kContiguous, kUnaligned, kOther };

class Vectorizer : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  Vectorizer(const ParallelInfo& info, Context* ctx)
      : info_(info), ctx_(ctx), var_(info.loop()->vars.back()) {}

  // Whether `width` iterations of the last variable may run as one.
  bool Fits(int64_t width) {
    width_ = width;
    ok_ = info_.extents().back() % width == 0;
    contiguous_ = false;
    if (ok_) VisitStmt(info_.loop()->body);
    return ok_ && contiguous_;
  }

  bool IsContiguous(const Buffer& buffer, const Array<Expr>& indices, int64_t width) {
    width_ = width;
    return Classify(buffer, indices) == Shape::kContiguous;
  }

  void VisitStmt(const Stmt& s) override {
    switch (s->kind) {
      case ir::StmtKind::kSeq:
      case ir::StmtKind::kIf:
      case ir::StmtKind::kStore:
        StmtVisitor::VisitStmt(s);
        break;
      default:
        ok_ = false;
    }
  }
  void Visit(const ir::IfNode* op) override {
    RequireUniform(op->condition);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::SelectNode* op) override {
    if (HasLoad(op->true_value) || HasLoad(op->false_value)) RequireUniform(op->condition);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::LoadNode* op) override {
    CheckAccess(op->buffer, op->indices);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::StoreNode* op) override {
    CheckAccess(op->buffer, op->indices);
    // All iterations writing one element is no vector store.
    if (Classify(op->buffer, op->indices) == Shape::kInvariant) ok_ = false;
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->name == "address_of") ok_ = false;
    StmtVisitor::Visit(op);
  }

 private:
  static bool HasLoad(const Expr& e) {
    bool found = false;
    ir::WalkExprs(e, [&](const Expr& x) {
      found = found || x->kind == ir::ExprKind::kLoad;
      return !found;
    });
    return found;
  }

  void CheckAccess(const Buffer& buffer, const Array<Expr>& indices) {
    if (buffer->scope == "local.var") return;
    if (buffer.IsFragment() || buffer.IsLocal()) return;
    Shape shape = Classify(buffer, indices);
    // Code generation would make a vector of them.
    if (shape == Shape::kUnaligned) ok_ = false;
    if (shape != Shape::kContiguous) return;
    if (width_ * ir::Bytes(buffer->dtype) > 16) ok_ = false;
    contiguous_ = true;
  }

  Shape Classify(const Buffer& buffer, const Array<Expr>& indices) {
    bool used = false;
    for (const Expr& e : indices) used = used || ir::UsesVar(e, var_);
    if (!used) return Shape::kInvariant;
    if (buffer.IsShared()) {
      auto layout = ctx_->layouts->GetLayout(buffer);
      if (layout) return ClassifyLayout(*layout, indices);
    }
    // The offset is linear in the indices.
    Expr offset = ir::Const(ir::dtypes::kInt64, 0);
    Array<Expr> strides = buffer.Strides();
    for (size_t d = 0; d < indices.size(); ++d) {
      offset = offset + ir::CastTo(ir::dtypes::kInt64, indices[d]) *
                            ir::CastTo(ir::dtypes::kInt64, strides[d]);
    }
    auto stride = ctx_->analyzer->StrideOf(offset, var_);
    if (stride != 1) return stride == 0 ? Shape::kInvariant : Shape::kOther;
    Map<Var, Expr> first;
    first.Set(var_, ir::Const(var_.dtype(), 0));
    return Divides(ir::Substitute(offset, first)) ? Shape::kContiguous : Shape::kUnaligned;
  }

  Shape ClassifyLayout(const Layout& layout, const Array<Expr>& indices) {
    size_t last = indices.size() - 1;
    for (size_t d = 0; d < last; ++d) {
      if (ir::UsesVar(indices[d], var_)) return Shape::kOther;
    }
    auto match = MatchVarPlusRest(indices[last], {var_});
    if (match && Divides(match->rest) && RunsAligned(layout)) return Shape::kContiguous;
    return layout->IsLinear() ? Shape::kUnaligned : Shape::kOther;
  }

  // Groups of `width` along the last dimension are consecutive and aligned in the layout.
  bool RunsAligned(const Layout& layout) {
    int64_t row = layout->Extents().back();
    if (row % width_ != 0) return false;
    int64_t size = layout->Size();
    for (int64_t i = 0; i < size; i += width_) {
      int64_t base = layout->At(i);
      if (base % width_ != 0) return false;
      for (int64_t k = 1; k < width_; ++k) {
        if (layout->At(i + k) != base + k) return false;
      }
    }
    return true;
  }

  bool Divides(const Expr& e) { return ctx_->analyzer->Divides(e, width_); }

  // The condition has one value for all iterations of an aligned group: it does not use the
  // variable, or compares var + rest with a bound, both multiples of the width.
  void RequireUniform(const Expr& condition) {
    if (!Uniform(condition)) ok_ = false;
  }
  bool Uniform(const Expr& e) {
    if (!ir::UsesVar(e, var_)) return true;
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    if (op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr) {
      return Uniform(op->a) && Uniform(op->b);
    }
    auto steps = [&](const Expr& moving, const Expr& bound) {
      auto match = MatchVarPlusRest(moving, {var_});
      return match && Divides(match->rest) && !ir::UsesVar(bound, var_) && Divides(bound);
    };
    // var + rest < bound and bound <= var + rest turn at a multiple of the width.
    if (op->Op() == ir::BinaryOp::kLt || op->Op() == ir::BinaryOp::kGe) {
      return steps(op->a, op->b);
    }
    if (op->Op() == ir::BinaryOp::kGt || op->Op() == ir::BinaryOp::kLe) {
      return steps(op->b, op->a);
    }
    return false;
  }

  const ParallelInfo& info_;
  Context* ctx_;
  Var var_;
  int64_t width_ = 1;
  bool ok_ = true;
  bool contiguous_ = false;
};

}  // namespace

bool MovesAsVector(const ParallelInfo& info, const Buffer& buffer, const Array<Expr>& indices,
                   int64_t width, Context* ctx) {
  return Vectorizer(info, ctx).IsContiguous(buffer, indices, width);
}

int64_t VectorWidth(const ParallelInfo& info, int64_t limit, Context* ctx) {
  int64_t width = 1;
  while (2 * width <= std::min<int64_t>(limit, 16)) width *= 2;
  Vectorizer vectorizer(info, ctx);
  while (width > 1 && !vectorizer.Fits(width)) width /= 2;
  return width;
}

}  // namespace tilelang::op
