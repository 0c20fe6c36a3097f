// Accesses outside of their buffers, as far as they are certain.
#include <optional>
#include <utility>

#include "analysis/scoped_visitor.h"
#include "check/check_parts.h"
#include "ir/error.h"
#include "ir/printer.h"

namespace tilelang::check {

using arith::Interval;
using ir::Expr;

namespace {

class BoundsChecker : public analysis::ScopedVisitor {
 public:
  BoundsChecker(const ir::Array<ir::Any>& params, Written written, const Raise& raise)
      : written_(written), raise_(raise) {
    analyzer_.BindParams(params);
  }
  using ScopedVisitor::Visit;

  void VisitStmt(const ir::Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }

  void Visit(const ir::LoadNode* op) override {
    ir::Span outer = span_;
    if (op->span.defined()) span_ = op->span;
    ScopedVisitor::Visit(op);
    CheckAccess(op->buffer, op->indices);
    span_ = outer;
  }
  void Visit(const ir::StoreNode* op) override {
    ScopedVisitor::Visit(op);
    CheckAccess(op->buffer, op->indices);
  }

  void Visit(const ir::ForNode* op) override {
    Loop({op->var}, {op->min}, {op->extent}, [&] { ScopedVisitor::Visit(op); });
  }
  void Visit(const ir::ParallelForNode* op) override {
    std::vector<Expr> mins(op->vars.size(), Expr(0));
    bool outer = std::exchange(in_parallel_, true);
    Loop(op->vars, mins, op->extents, [&] { ScopedVisitor::Visit(op); });
    in_parallel_ = outer;
  }
  // All threads of a program run it, up to its conditions. Passes add warps that do not.
  void Visit(const ir::KernelLaunchNode* op) override {
    size_t before = loops_.size();
    for (size_t i = 0; i < op->thread_vars.size() && written_ == Written::kByUser; ++i) {
      if (auto extent = ir::AsInt(op->threads[i])) {
        loops_.push_back({op->thread_vars[i], {0, *extent - 1}});
      }
    }
    ScopedVisitor::Visit(op);
    loops_.erase(loops_.begin() + static_cast<int64_t>(before), loops_.end());
  }
  void Visit(const ir::WhileNode* op) override {
    ++conditions_;
    ScopedVisitor::Visit(op);
    --conditions_;
  }

 protected:
  void Under(const Expr& condition, bool holds, const std::function<void()>& visit) override {
    // Code that never runs may do anything.
    if (analyzer_.CanProve(holds ? ir::Not(condition) : condition)) return;
    ++conditions_;
    ScopedVisitor::Under(condition, holds, visit);
    --conditions_;
  }

  void VisitRegion(const ir::Region& region) override {
    ScopedVisitor::VisitRegion(region);
    const ir::Buffer& buffer = region->buffer;
    CheckIndices(buffer, region->mins);
    if (buffer.IsGlobal() && written_ != Written::kByUser) return;
    CheckInside(buffer, region->mins);
    if (buffer.IsGlobal()) return;  // a ragged tile at the edge
    for (size_t d = 0; d < region->mins.size(); ++d) {
      Interval end = analyzer_.ConstBounds(region->mins[d] + region->extents[d]);
      auto size = ir::AsInt(buffer->shape[d]);
      if (!size || end.lo <= *size) continue;
      raise_(ir::ErrorClass::kBounds, span_,
             (ir::ErrorStream() << "region " << ir::Print(region) << " ends at " << end.lo
                                << " in dimension " << d << " of " << Describe(buffer))
                 .str());
    }
  }

 private:
  struct Range {
    ir::Var var;
    Interval values;
  };

  void Loop(const ir::Array<ir::Var>& vars, const ir::Array<Expr>& mins,
            const ir::Array<Expr>& extents, const std::function<void()>& visit) {
    size_t before = loops_.size();
    bool constant = true;
    for (size_t i = 0; i < vars.size(); ++i) {
      auto min = ir::AsInt(mins[i]), extent = ir::AsInt(extents[i]);
      if (analyzer_.ConstBounds(extents[i]).hi <= 0) return;
      constant = constant && min && extent;
      if (constant) loops_.push_back({vars[i], {*min, *min + *extent - 1}});
    }
    // A loop that may not run is a condition on its body.
    conditions_ += constant ? 0 : 1;
    visit();
    conditions_ -= constant ? 0 : 1;
    loops_.erase(loops_.begin() + static_cast<int64_t>(before), loops_.end());
  }

  void CheckAccess(const ir::Buffer& buffer, const ir::Array<Expr>& indices) {
    CheckIndices(buffer, indices);
    bool guarded_later = in_parallel_ && written_ == Written::kByPasses && buffer.IsGlobal();
    if (!guarded_later) CheckInside(buffer, indices);
  }

  // One of an integral type for each dimension.
  void CheckIndices(const ir::Buffer& buffer, const ir::Array<Expr>& indices) {
    if (indices.size() != buffer->shape.size()) {
      raise_(ir::ErrorClass::kShape, span_,
             (ir::ErrorStream() << indices.size() << " indices for " << Describe(buffer)
                                << " of rank " << buffer->shape.size())
                 .str());
    }
    for (const Expr& index : indices) {
      if (ir::IsIntegral(index.dtype())) continue;
      raise_(
          ir::ErrorClass::kDType, span_,
          (ir::ErrorStream() << "index " << ir::Print(index) << " of " << Describe(buffer)
                             << " is a " << ir::ToString(index.dtype()) << "; indices are integers")
              .str());
    }
  }

  void CheckInside(const ir::Buffer& buffer, const ir::Array<Expr>& indices) {
    for (size_t d = 0; d < indices.size(); ++d) CheckIndex(buffer, d, indices[d]);
  }

  void CheckIndex(const ir::Buffer& buffer, size_t d, const Expr& index) {
    Interval bounds = analyzer_.ConstBounds(index);
    auto size = ir::AsInt(buffer->shape[d]);
    // Programs for tensors without elements hold accesses that are never executed.
    if (size == 0 && buffer.IsGlobal()) return;
    bool outside = bounds.hi < 0 || (size && bounds.lo >= *size);
    int64_t reached = bounds.hi < 0 ? bounds.hi : bounds.lo;
    if (!outside && !buffer.IsGlobal() && size && conditions_ == 0) {
      if (auto extremes = Attained(index)) {
        outside = extremes->lo < 0 || extremes->hi >= *size;
        reached = extremes->lo < 0 ? extremes->lo : extremes->hi;
      }
    }
    if (!outside) return;
    std::string value = ir::AsInt(index) ? "" : " = " + ir::Print(index);
    raise_(ir::ErrorClass::kBounds, span_,
           (ir::ErrorStream() << "index " << reached << value << " in dimension " << d << " of "
                              << Describe(buffer) << " is out of bounds; indices go from 0 to "
                              << ir::Print(buffer->shape[d]) << " - 1")
               .str());
  }

  // The least and greatest value that the index really takes: it is a sum of multiples of variables
  // of loops and threads, which run through all their values.
  std::optional<Interval> Attained(const Expr& index) {
    Interval sum = Interval::Point(0);
    ir::Map<ir::Var, Expr> zero;
    for (const Range& loop : loops_) {
      if (!ir::UsesVar(index, loop.var)) continue;
      auto stride = analyzer_.StrideOf(index, loop.var);
      if (!stride) return std::nullopt;
      sum = sum + loop.values * *stride;
      zero.Set(loop.var, ir::Const(loop.var.dtype(), 0));
    }
    auto rest = ir::AsInt(arith::Analyzer().Simplify(ir::Substitute(index, zero)));
    if (!rest) return std::nullopt;
    return sum + Interval::Point(*rest);
  }

  Written written_;
  const Raise& raise_;
  std::vector<Range> loops_;
  int conditions_ = 0;
  bool in_parallel_ = false;
  ir::Span span_;
};

}  // namespace

void CheckBounds(const ir::Func& func, Written written, const Raise& raise) {
  BoundsChecker(func->params, written, raise).VisitStmt(func->body);
}

}  // namespace tilelang::check
