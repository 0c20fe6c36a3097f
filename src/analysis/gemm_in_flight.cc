#include "analysis/gemm_in_flight.h"

#include <algorithm>

#include "arith/structural.h"
#include "ir/async.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::analysis {

using ir::Expr;

namespace {

bool Holds(const std::vector<Expr>& barriers, const Expr& barrier) {
  return std::any_of(barriers.begin(), barriers.end(),
                     [&](const Expr& b) { return arith::SameStructure(b, barrier); });
}

}  // namespace

void GemmInFlight::Visit(const ir::GemmNode* op) {
  if (!mine_(op)) return;
  state_ = {};
  if (op::WaitsItself(op)) return;
  state_.gemm = op;
  if (op->mbar.defined()) state_.barriers.push_back(op->mbar);
}

void GemmInFlight::Visit(const ir::ArriveNode* op) {
  bool commits = op->Kind() == ir::ArriveKind::kIssuerCommit;
  if (commits && state_.gemm != nullptr) state_.barriers.push_back(op->mbar);
}

void GemmInFlight::Visit(const ir::WaitParityNode* op) {
  if (Holds(state_.barriers, op->mbar)) state_ = {};
}

void GemmInFlight::Visit(const ir::IfNode* op) {
  State before = state_;
  VisitStmt(op->then_case);
  State taken = state_;
  state_ = before;
  if (op->else_case.defined()) VisitStmt(op->else_case);
  state_ = Merge(taken, state_);
}

void GemmInFlight::Loop(const ir::Stmt& body) {
  exits_.push_back(state_);
  VisitStmt(body);
  state_ = Merge(state_, exits_.back());
  exits_.pop_back();
}

void GemmInFlight::Leave() {
  if (!exits_.empty()) exits_.back() = Merge(exits_.back(), state_);
}

GemmInFlight::State GemmInFlight::Merge(const State& a, const State& b) {
  if (a.gemm == nullptr) return b;
  if (b.gemm == nullptr) return a;
  State both{b.gemm, {}};
  for (const Expr& barrier : b.barriers) {
    if (Holds(a.barriers, barrier)) both.barriers.push_back(barrier);
  }
  return both;
}

}  // namespace tilelang::analysis
