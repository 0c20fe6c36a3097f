#include "arith/lazy_loads.h"

#include <algorithm>
#include <vector>

#include "arith/structural.h"
#include "ir/visitor.h"

namespace tilelang::arith {

namespace {

using ir::Expr;

bool LoadsMemory(const Expr& e) {
  const auto* load = e.as<ir::LoadNode>();
  return load != nullptr && (load->buffer.IsShared() || load->buffer.IsGlobal());
}

// Collects the loads of memory in a condition. Without `lazy`, collects only loads that are always
// evaluated.
void LoadsOf(const Expr& e, bool lazy, std::vector<Expr>* loads) {
  ir::WalkExprs(e, [&](const Expr& part) {
    if (LoadsMemory(part)) loads->push_back(part);
    if (lazy) return true;
    if (const auto* choice = part.as<ir::SelectNode>()) {
      LoadsOf(choice->condition, false, loads);
      return false;
    }
    const auto* op = part.as<ir::BinaryNode>();
    if (op == nullptr || (op->Op() != ir::BinaryOp::kAnd && op->Op() != ir::BinaryOp::kOr)) {
      return true;
    }
    LoadsOf(op->a, false, loads);
    return false;
  });
}

}  // namespace

bool DecidesOnLoads(const ir::SelectNode* choice, bool guarded) {
  std::vector<Expr> known;
  LoadsOf(choice->condition, guarded, &known);
  bool decides = false;
  for (const Expr& branch : {choice->true_value, choice->false_value}) {
    ir::WalkExprs(branch, [&](const Expr& part) {
      decides |= LoadsMemory(part) && std::none_of(known.begin(), known.end(), [&](const Expr& e) {
                   return SameStructure(e, part);
                 });
      return !decides;
    });
  }
  return decides;
}

}  // namespace tilelang::arith
