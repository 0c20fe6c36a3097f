// Finds where gemms that the user waits for are complete.
#ifndef TILELANG_ANALYSIS_GEMM_IN_FLIGHT_H_
#define TILELANG_ANALYSIS_GEMM_IN_FLIGHT_H_

#include <functional>
#include <vector>

#include "ir/visitor.h"

namespace tilelang::analysis {

// Follows the gemms that `mine` selects over statements visited in order: one issued for an
// mbarrier (mbar=, or T.tcgen05_mma_arrive after it) is complete after a wait for that mbarrier.
// Every path counts: branches, loops that run no iteration, break and continue.
class GemmInFlight : public ir::StmtVisitor {
 public:
  using Select = std::function<bool(const ir::GemmNode*)>;
  explicit GemmInFlight(Select mine) : mine_(std::move(mine)) {}

  // Returns whether a gemm may be incomplete after the visited statements.
  bool InFlight() const { return state_.gemm != nullptr; }
  // The last one issued.
  const ir::GemmNode* Gemm() const { return state_.gemm; }

  using StmtVisitor::Visit;
  void Visit(const ir::GemmNode* op) override;
  void Visit(const ir::ArriveNode* op) override;
  void Visit(const ir::WaitParityNode* op) override;
  void Visit(const ir::IfNode* op) override;
  void Visit(const ir::ForNode* op) override { Loop(op->body); }
  void Visit(const ir::WhileNode* op) override { Loop(op->body); }
  void Visit(const ir::BreakNode*) override { Leave(); }
  void Visit(const ir::ContinueNode*) override { Leave(); }

 private:
  struct State {
    const ir::GemmNode* gemm = nullptr;
    std::vector<ir::Expr> barriers;  // a wait for any one suffices
  };
  static State Merge(const State& a, const State& b);
  void Loop(const ir::Stmt& body);
  void Leave();

  Select mine_;
  State state_;
  std::vector<State> exits_;  // of the enclosing loops
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_GEMM_IN_FLIGHT_H_
