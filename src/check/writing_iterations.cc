#include "check/writing_iterations.h"

#include <algorithm>

#include "analysis/thread_set.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Var;

// Enumerating more would take long.
constexpr int64_t kMostIterations = 4096;

bool HasMemoryOrCalls(const Expr& e) {
  return ir::HasExpr(e, [&](const Expr& part) {
    return part.as<ir::LoadNode>() != nullptr || part.as<ir::CallNode>() != nullptr;
  });
}

bool UsesOnly(const Expr& e, const Var& var) {
  bool only = true;
  ir::WalkExprs(e, [&](const Expr& part) {
    only &= part.as<ir::VarNode>() == nullptr || part.same_as(var);
    return only;
  });
  return only;
}

// <, <=, >, >=, != or the contrary of ==: they leave several iterations, as a rule.
bool IsBound(const Expr& condition) {
  const auto* negation = condition.as<ir::UnaryNode>();
  bool contrary = negation != nullptr && negation->Op() == ir::UnaryOp::kNot;
  const auto* op = (contrary ? negation->a : condition).as<ir::BinaryNode>();
  return op != nullptr && ir::IsComparison(op->Op()) &&
         op->Op() != (contrary ? BinaryOp::kNe : BinaryOp::kEq);
}

Expr At(const Expr& e, const Var& var, const Expr& value) {
  return ir::Substitute(e, ir::Map<Var, Expr>({{var, value}}));
}

bool LeavesOneOf(const std::vector<Expr>& conditions, const Iterations& all) {
  if (all.extent > kMostIterations) return true;
  arith::Analyzer analyzer;
  int64_t left = 0;
  for (int64_t i = 0; i < all.extent && left < 2; ++i) {
    Expr value = ir::IntImm(all.var.dtype(), i);
    // An iteration whose conditions are not known does not count.
    bool holds = std::all_of(conditions.begin(), conditions.end(), [&](const Expr& condition) {
      return ir::AsInt(analyzer.Simplify(At(condition, all.var, value))).value_or(0) != 0;
    });
    left += holds ? 1 : 0;
  }
  return left < 2;
}

bool ProvenToLeaveOne(const std::vector<Expr>& conditions, const Iterations& all) {
  arith::Analyzer analyzer;
  Var other(all.var->name, all.var.dtype());
  for (const Var& var : {all.var, other}) {
    analyzer.Bind(var, ir::IntImm(var.dtype(), 0), ir::IntImm(var.dtype(), all.extent));
    for (const Expr& condition : conditions) analyzer.Assume(At(condition, all.var, var));
  }
  return analyzer.CanProveNonNegative(all.var - other);
}

}  // namespace

bool DependsOn(const Expr& e, const Var& var) {
  bool found = ir::UsesVar(e, var);
  ir::WalkExprs(e, [&](const Expr& part) {
    const auto* load = part.as<ir::LoadNode>();
    found |= load != nullptr && load->buffer.IsLocal();
    return !found;
  });
  return found;
}

bool MayLeaveOne(const std::vector<Expr>& conditions, const Iterations& all) {
  std::vector<Expr> asked;  // of these iterations
  for (const Expr& condition : conditions) {
    std::vector<Expr> parts;
    analysis::Conjuncts(condition, &parts);
    for (const Expr& part : parts) {
      if (!DependsOn(part, all.var)) continue;
      if (HasMemoryOrCalls(part)) return true;
      asked.push_back(part);
    }
  }
  if (asked.empty()) return false;
  std::vector<Expr> alone;  // on nothing else
  std::copy_if(asked.begin(), asked.end(), std::back_inserter(alone),
               [&](const Expr& condition) { return UsesOnly(condition, all.var); });
  if (!alone.empty() && LeavesOneOf(alone, all)) return true;
  auto rest = std::any_of(asked.begin(), asked.end(), [&](const Expr& condition) {
    return !UsesOnly(condition, all.var) && !IsBound(condition);
  });
  return rest || ProvenToLeaveOne(asked, all);
}

}  // namespace tilelang::check
