#include "verify/elements.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "arith/analyzer.h"
#include "arith/host_eval.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::verify {

using analysis::OwnerMap;
using ir::Expr;
using ir::Stmt;

namespace {

// The largest number of pairs of a thread and an iteration to enumerate. An access with more of
// them counts as an access by all threads.
constexpr int64_t kMostPoints = 1 << 20;
constexpr int64_t kBatch = 2048;

using Columns = arith::HostProgram::Columns;
using Ranges = std::vector<VariableRange>;

// Returns whether `e` is an integer that depends on these variables alone.
bool IsKnown(const Expr& e, const Ranges& threads, const Ranges& loops) {
  auto has = [](const Ranges& ranges, const Expr& var) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const VariableRange& range) { return range.var.same_as(var); });
  };
  return !ir::HasExpr(e, [&](const Expr& part) {
    bool memory = part->kind == ir::ExprKind::kLoad || part->kind == ir::ExprKind::kCall;
    bool free = part->kind == ir::ExprKind::kVar && !has(threads, part) && !has(loops, part);
    return memory || free || !ir::IsIntegral(part.dtype());
  });
}

void AddConjuncts(const Expr& e, std::vector<Expr>* out) {
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr || op->Op() != ir::BinaryOp::kAnd) return out->push_back(e);
  AddConjuncts(op->a, out);
  AddConjuncts(op->b, out);
}

// Enumerates the values of an index for which all conditions hold.
class Points {
 public:
  Points(const Ranges& threads, const Ranges& loops, const ir::Array<Expr>& conditions,
         const Expr& index)
      : threads_(threads) {
    for (const VariableRange& loop : loops) {
      bool used = ir::UsesVar(index, loop.var) ||
                  std::any_of(conditions.begin(), conditions.end(), [&](const Expr& condition) {
                    return ir::UsesVar(condition, loop.var);
                  });
      // A loop that neither the index nor a condition uses needs only one iteration.
      if (used) loops_.push_back(loop);
    }
    for (const VariableRange& thread : threads_) num_threads_ *= thread.extent;
    for (const VariableRange& loop : loops_) iterations_ *= std::max<int64_t>(loop.extent, 0);
    if (TooMany()) return;
    ir::Array<ir::Var> vars;
    for (const Ranges& ranges : {threads_, loops_}) {
      for (const VariableRange& range : ranges) vars.push_back(range.var);
    }
    ir::Array<Expr> outputs = conditions;
    outputs.push_back(index);
    program_ = arith::HostProgram(outputs, vars);
  }

  bool TooMany() const { return iterations_ > kMostPoints / num_threads_; }

  // Calls visit(iteration, thread, index).
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    Columns inputs(threads_.size() + loops_.size());
    Columns outputs;
    int64_t step = std::max<int64_t>(kBatch / num_threads_, 1);
    for (int64_t first = 0; first < iterations_; first += step) {
      int64_t count = std::min(step, iterations_ - first);
      Fill(first, count, &inputs);
      auto points = static_cast<size_t>(count * num_threads_);
      program_.RunMany(inputs, points, &outputs);
      for (size_t p = 0; p < points; ++p) {
        bool holds = true;
        for (size_t i = 0; i + 1 < outputs.size(); ++i) holds = holds && outputs[i][p] != 0;
        auto place = static_cast<int64_t>(p);
        if (!holds) continue;
        visit(first + place / num_threads_, place % num_threads_, outputs.back()[p]);
      }
    }
  }

 private:
  void Fill(int64_t first, int64_t count, Columns* inputs) const {
    int64_t stride = 1;
    for (size_t i = 0; i < inputs->size(); ++i) {
      bool of_threads = i < threads_.size();
      const VariableRange& range = of_threads ? threads_[i] : loops_[i - threads_.size()];
      if (i == threads_.size()) stride = 1;
      std::vector<int64_t>& column = (*inputs)[i];
      column.clear();
      for (int64_t iteration = first; iteration < first + count; ++iteration) {
        for (int64_t thread = 0; thread < num_threads_; ++thread) {
          int64_t number = of_threads ? thread : iteration;
          column.push_back(range.min + number / stride % range.extent);
        }
      }
      stride *= range.extent;
    }
  }

  Ranges threads_;
  Ranges loops_;
  int64_t num_threads_ = 1;
  int64_t iterations_ = 1;
  arith::HostProgram program_;  // the conditions, then the index
};

class ElementReader : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  ElementReader(const Surroundings& around, const ir::Buffer& buffer, int64_t base,
                const OperandReader& operands, std::vector<ElementAccess>* out)
      : threads_(around.threads),
        guards_(around.guards),
        buffer_(buffer),
        base_(base),
        operands_(operands),
        out_(out) {}

  void Visit(const ir::LoadNode* op) override {
    StmtVisitor::Visit(op);
    Add({0, op->buffer, op->indices[0], true, false, false, 1});
  }
  void Visit(const ir::StoreNode* op) override {
    StmtVisitor::Visit(op);
    Add({0, op->buffer, op->indices[0], false, true, false, 1});
  }
  void Visit(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kAddressOf)) {
      for (const Expr& index : op->args[0].as<ir::LoadNode>()->indices) VisitExpr(index);
      return;
    }
    StmtVisitor::Visit(op);
    for (const Operand& operand : operands_.Of(op)) Add(operand);
  }
  void Visit(const ir::ForNode* op) override {
    VisitExpr(op->extent);
    auto min = ir::AsInt(op->min), extent = GreatestOf(op->extent);
    bool known = min && extent;
    const ir::ForNode* outer = vector_;
    if (op->Kind() == ir::ForKind::kVectorized) vector_ = op;
    if (known) loops_.push_back({op->var, *min, *extent});
    if (known && !ir::AsInt(op->extent)) {
      // Threads run different numbers of iterations.
      Expr end = op->extent + ir::Const(op->extent.dtype(), *min);
      Under(ir::CastTo(end.dtype(), op->var) < end, [&] { VisitStmt(op->body); });
    } else {
      VisitStmt(op->body);
    }
    if (known) loops_.pop_back();
    vector_ = outer;
  }
  void Visit(const ir::BindNode* op) override {
    VisitExpr(op->value);
    values_.Set(op->var, ir::Substitute(op->value, values_));
  }
  void Visit(const ir::SelectNode* op) override {
    VisitExpr(op->condition);
    Under(op->condition, [&] { VisitExpr(op->true_value); });
    Under(ir::Not(op->condition), [&] { VisitExpr(op->false_value); });
  }
  void Visit(const ir::IfNode* op) override {
    VisitExpr(op->condition);
    Under(op->condition, [&] { VisitStmt(op->then_case); });
    if (!op->else_case.defined()) return;
    Under(ir::Not(op->condition), [&] { VisitStmt(op->else_case); });
  }

 private:
  // Returns the greatest value of an extent that depends only on threads and on known loops.
  std::optional<int64_t> GreatestOf(const Expr& extent) const {
    if (auto constant = ir::AsInt(extent)) return constant;
    Expr value = ir::Substitute(extent, values_);
    if (!IsKnown(value, threads_, loops_)) return std::nullopt;
    Points points(threads_, loops_, {}, value);
    if (points.TooMany()) return std::nullopt;
    int64_t greatest = 0;
    points.ForEach([&](int64_t, int64_t, int64_t n) { greatest = std::max(greatest, n); });
    return greatest;
  }

  template <typename Fn>
  void Under(const Expr& condition, const Fn& visit) {
    guards_.push_back(condition);
    visit();
    guards_.pop_back();
  }

  void Add(const Operand& operand) {
    if (!operand.buffer.same_as(buffer_)) return;
    ElementAccess access;
    access.reads = operand.reads;
    access.writes = operand.writes;
    access.element_bytes = ir::Bytes(buffer_->dtype);
    access.base = access.begin = base_;
    access.end = base_ + ir::AsInt(buffer_->shape[0]).value_or(1) * access.element_bytes;
    bool named = operand.index.defined() && operand.elements > 0;
    if (named) Locate(operand, &access);
    out_->push_back(std::move(access));
  }

  void Locate(const Operand& operand, ElementAccess* access) const {
    Expr index = ir::Substitute(operand.index, values_);
    int64_t elements = operand.elements;
    if (vector_ != nullptr && ir::IsVectorAccess(vector_, buffer_, {index})) {
      elements = *ir::AsInt(vector_->extent);
      index = ir::Substitute(index, {{vector_->var, vector_->min}});
    }
    if (!IsKnown(index, threads_, loops_)) return;
    bool elected = false;
    ir::Array<Expr> conditions = Conditions(&elected);
    Points points(threads_, loops_, conditions, index);
    if (points.TooMany()) {
      // Dropping the conditions on loops that the index does not use adds iterations, but no other
      // elements.
      ir::Array<Expr> fewer;
      for (const Expr& condition : conditions) {
        if (!UsesOtherLoop(condition, index)) fewer.push_back(condition);
      }
      points = Points(threads_, loops_, fewer, index);
    }
    if (points.TooMany()) return Narrow(index, conditions, elements, access);
    std::vector<analysis::ThreadElements> touches;
    points.ForEach([&](int64_t iteration, int64_t thread, int64_t element) {
      if (operand.lanes > 0 && thread % kWarp >= operand.lanes) return;
      auto owner = static_cast<int32_t>(thread);
      if (elected) owner = ElementAccess::kElected + static_cast<int32_t>(thread / kWarp);
      touches.push_back({iteration, element, owner});
    });
    access->owners = OwnerMap::Of(touches, elements);
    if (!operand.for_warp) return;
    // The lane that names an address is not the lane that gets the element.
    for (int32_t& owner : access->owners->owner) {
      if (owner != OwnerMap::kNobody) owner = OwnerMap::kMany;
    }
  }

  // Returns the conditions around the access that are known, and sets `elected` if one of them is
  // an election.
  ir::Array<Expr> Conditions(bool* elected) const {
    std::vector<Expr> all;
    for (const Expr& guard : guards_) AddConjuncts(ir::Substitute(guard, values_), &all);
    ir::Array<Expr> known;
    for (const Expr& condition : all) {
      const auto* call = condition.as<ir::CallNode>();
      *elected |= call != nullptr && call->Is(ir::Builtin::kElectOne);
      if (IsKnown(condition, threads_, loops_)) known.push_back(condition);
    }
    return known;
  }

  bool UsesOtherLoop(const Expr& condition, const Expr& index) const {
    return std::any_of(loops_.begin(), loops_.end(), [&](const VariableRange& loop) {
      return ir::UsesVar(condition, loop.var) && !ir::UsesVar(index, loop.var);
    });
  }

  // Sets the bytes between the least and the greatest value of the index. A loop that moves the
  // index by a constant stride, and that no condition uses, contributes its two ends. All other
  // loops are enumerated, unless they have too many iterations.
  void Narrow(Expr index, const ir::Array<Expr>& conditions, int64_t elements,
              ElementAccess* access) const {
    arith::Analyzer analyzer;
    arith::Interval moves = arith::Interval::Point(0);
    Ranges others;
    for (const VariableRange& loop : loops_) {
      auto stride = analyzer.StrideOf(index, loop.var);
      bool asked = std::any_of(conditions.begin(), conditions.end(), [&](const Expr& condition) {
        return ir::UsesVar(condition, loop.var);
      });
      if (!stride || asked || loop.extent < 1) {
        others.push_back(loop);
        continue;
      }
      moves = moves + arith::Interval{0, loop.extent - 1} * *stride;
      index = ir::Substitute(index, {{loop.var, ir::Const(loop.var.dtype(), loop.min)}});
    }
    arith::Interval bounds = moves + BoundsOf(index, conditions, others);
    if (!bounds.IsFinite()) return;
    int64_t first = base_ + bounds.lo * access->element_bytes;
    int64_t last = base_ + (bounds.hi + elements) * access->element_bytes;
    access->begin = std::clamp(first, access->begin, access->end);
    access->end = std::clamp(last, access->begin, access->end);
  }

  arith::Interval BoundsOf(const Expr& index, const ir::Array<Expr>& conditions,
                           const Ranges& loops) const {
    Points points(threads_, loops, conditions, index);
    if (!points.TooMany()) {
      std::optional<arith::Interval> bounds;
      points.ForEach([&](int64_t, int64_t, int64_t value) {
        arith::Interval point = arith::Interval::Point(value);
        bounds = bounds ? arith::Hull(*bounds, point) : point;
      });
      if (bounds) return *bounds;
    }
    arith::Analyzer analyzer;
    for (const Ranges& ranges : {threads_, loops}) {
      for (const VariableRange& range : ranges) {
        analyzer.Bind(range.var, ir::Const(range.var.dtype(), range.min),
                      ir::Const(range.var.dtype(), range.extent));
      }
    }
    return analyzer.ConstBounds(index);
  }

  const Ranges& threads_;
  Ranges loops_;
  std::vector<Expr> guards_;
  ir::Map<ir::Var, Expr> values_;
  const ir::ForNode* vector_ = nullptr;
  const ir::Buffer& buffer_;
  int64_t base_;
  const OperandReader& operands_;
  std::vector<ElementAccess>* out_;
};

}  // namespace

std::vector<ElementAccess> ElementsOf(const Stmt& s, const Surroundings& around,
                                      const ir::Buffer& buffer, int64_t base,
                                      const OperandReader& operands) {
  std::vector<ElementAccess> accesses;
  ElementReader(around, buffer, base, operands, &accesses).VisitStmt(s);
  return accesses;
}

}  // namespace tilelang::verify
