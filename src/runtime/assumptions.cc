#include "runtime/assumptions.h"

#include <tvm/ffi/cast.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "ir/build.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::runtime {

namespace {

using ir::Expr;

Expr Bool(bool value) { return ir::Const(ir::dtypes::kBool, value ? 1 : 0); }

// The integer variables that a call gives values to.
class VariablesOfCalls {
 public:
  explicit VariablesOfCalls(const ir::Func& program) {
    for (const ffi::Any& param : program->params) {
      if (auto var = param.as<ir::Var>()) {
        Add(*var);
      } else {
        ir::Buffer tensor = param.cast<ir::Buffer>();
        for (const auto* extents : {&tensor->shape, &tensor->strides}) {
          for (const Expr& extent : *extents) AddAll(extent);
        }
      }
    }
  }

  // Returns whether the host can evaluate the expression.
  bool Determine(const Expr& expr) const {
    bool known = true;
    ir::WalkExprs(expr, [&](const Expr& e) {
      bool computes = e->kind != ir::ExprKind::kLoad && e->kind != ir::ExprKind::kCall;
      known &= computes && ir::IsIntegral(e.dtype());
      if (e->kind == ir::ExprKind::kVar) known &= variables_.count(e.get()) != 0;
      return known;
    });
    return known;
  }

 private:
  void AddAll(const Expr& expr) {
    ir::WalkExprs(expr, [&](const Expr& e) {
      if (const auto* var = e.as<ir::VarNode>()) Add(ffi::GetRef<ir::Var>(var));
      return true;
    });
  }
  void Add(const ir::Var& var) {
    if (ir::IsIntegral(var.dtype())) variables_.insert(var.get());
  }

  std::unordered_set<const ffi::Object*> variables_;
};

// Returns the condition in a form that evaluates the second operand of `and` and `or` only where
// the first one does not decide: the second one may divide by what the first one tests.
Expr ShortCircuited(const Expr& condition) {
  const auto* pair = condition.as<ir::BinaryNode>();
  bool is_and = pair != nullptr && pair->Op() == ir::BinaryOp::kAnd;
  bool is_or = pair != nullptr && pair->Op() == ir::BinaryOp::kOr;
  if (!is_and && !is_or) return condition;
  Expr first = ShortCircuited(pair->a);
  Expr second = ShortCircuited(pair->b);
  return is_and ? ir::MakeSelect(first, second, Bool(false), pair->span)
                : ir::MakeSelect(first, Bool(true), second, pair->span);
}

// Calls `visit` for each fact that a launch states under no condition. An early return puts the
// rest of the kernel under a condition.
void ForEachFact(const ir::Stmt& body, const std::function<void(const ir::AssumeNode*)>& visit) {
  if (const auto* fact = body.as<ir::AssumeNode>()) return visit(fact);
  if (const auto* seq = body.as<ir::SeqNode>()) {
    for (const ir::Stmt& s : seq->stmts) ForEachFact(s, visit);
  }
}

}  // namespace

ffi::Array<ir::Assert> AssumptionsOf(const ir::Func& program) {
  ffi::Array<ir::Assert> facts;
  VariablesOfCalls variables(program);
  ir::WalkStmts(program->body, [&](const ir::Stmt& s) {
    const auto* launch = s.as<ir::KernelLaunchNode>();
    if (launch == nullptr) return true;
    Expr runs = Bool(true);
    for (const Expr& extent : launch->grid) {
      runs = runs && ir::Const(extent.dtype(), 0) < extent;
    }
    if (!variables.Determine(runs)) return false;
    ForEachFact(launch->body, [&](const ir::AssumeNode* fact) {
      if (!variables.Determine(fact->condition)) return;
      Expr holds = ir::MakeSelect(runs, ShortCircuited(fact->condition), Bool(true), fact->span);
      facts.push_back(
          ir::Assert(holds, "T.assume(" + ir::Print(fact->condition) + ")", fact->span));
    });
    return false;
  });
  return facts;
}

Assumptions::Assumptions(const ffi::Array<ir::Assert>& facts, VarSlots* slots) {
  for (const ir::Assert& fact : facts) {
    Fact made{HostExpr(fact->condition, slots), fact->message, fact->span, {}};
    ir::WalkExprs(fact->condition, [&](const Expr& e) {
      const auto* node = e.as<ir::VarNode>();
      if (node == nullptr) return true;
      std::pair<std::string, int> variable(node->name, slots->Intern(ffi::GetRef<ir::Var>(node)));
      bool is_new =
          std::find(made.variables.begin(), made.variables.end(), variable) == made.variables.end();
      if (is_new) made.variables.push_back(variable);
      return true;
    });
    facts_.push_back(std::move(made));
  }
}

bool Assumptions::Fact::IsUndetermined(const CallState& state) const {
  return std::any_of(variables.begin(), variables.end(), [&](const auto& variable) {
    const auto& slots = state.undetermined;
    return std::find(slots.begin(), slots.end(), variable.second) != slots.end();
  });
}

void Assumptions::Check(const CallState& state) const {
  const int64_t* values = state.values.data();
  for (const Fact& fact : facts_) {
    if (fact.holds.Evaluate(values) != 0 || fact.IsUndetermined(state)) continue;
    std::string message = fact.text + " does not hold in this call";
    for (const auto& [name, slot] : fact.variables) {
      message += (&name == &fact.variables.front().first ? ", where " : " and ") + name + " is " +
                 std::to_string(values[slot]);
    }
    ir::RethrowAt(fact.span, ffi::Error("tilelang.AssumptionError", message, ""));
  }
}

}  // namespace tilelang::runtime
