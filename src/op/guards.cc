#include "op/guards.h"

#include <algorithm>
#include <utility>

#include "ir/visitor.h"

namespace tilelang::op {

using ir::BinaryOp;
using ir::Expr;

namespace {

class Finder : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  void Visit(const ir::IfNode* op) override {
    VisitExpr(op->condition);
    Under(op->condition, true, [&] { VisitStmt(op->then_case); });
    if (!op->else_case.defined()) return;
    Under(op->condition, false, [&] { VisitStmt(op->else_case); });
  }
  void Visit(const ir::SelectNode* op) override {
    VisitExpr(op->condition);
    Under(op->condition, true, [&] { VisitExpr(op->true_value); });
    Under(op->condition, false, [&] { VisitExpr(op->false_value); });
  }
  void Visit(const ir::BinaryNode* op) override {
    bool is_and = op->Op() == BinaryOp::kAnd;
    VisitExpr(op->a);
    if (!is_and && op->Op() != BinaryOp::kOr) return VisitExpr(op->b);
    Under(op->a, is_and, [&] { VisitExpr(op->b); });
  }
  void Visit(const ir::StoreNode* op) override {
    found.emplace(op, guards_);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::LoadNode* op) override {
    auto [known, is_first] = found.emplace(op, guards_);
    if (!is_first) {
      size_t common = 0;
      while (common < std::min(known->second.size(), guards_.size()) &&
             known->second[common].condition.same_as(guards_[common].condition) &&
             known->second[common].holds == guards_[common].holds) {
        ++common;
      }
      known->second.resize(common);
    }
    StmtVisitor::Visit(op);
  }

  std::unordered_map<const tvm::ffi::Object*, std::vector<Guard>> found;

 private:
  template <typename Body>
  void Under(const Expr& condition, bool holds, Body body) {
    size_t outer = guards_.size();
    Split(condition, holds);
    body();
    guards_.resize(outer);
  }
  // Splits a condition. If `a and b` holds, both sides hold; if `a or b` does not hold, neither
  // side does.
  void Split(const Expr& condition, bool holds) {
    const auto* op = condition.as<ir::BinaryNode>();
    if (op != nullptr && op->Op() == (holds ? BinaryOp::kAnd : BinaryOp::kOr)) {
      Split(op->a, holds);
      Split(op->b, holds);
    } else {
      guards_.push_back({condition, holds});
    }
  }

  std::vector<Guard> guards_;
};

}  // namespace

std::unordered_map<const tvm::ffi::Object*, std::vector<Guard>> GuardsOfAccesses(
    const ir::Stmt& body) {
  Finder finder;
  finder.VisitStmt(body);
  return std::move(finder.found);
}

}  // namespace tilelang::op
