// A visitor that tells an analyzer what holds at each point: ranges of variables, conditions.
#ifndef TILELANG_ANALYSIS_SCOPED_VISITOR_H_
#define TILELANG_ANALYSIS_SCOPED_VISITOR_H_

#include "arith/analyzer.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

class ScopedVisitor : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;
  void Visit(const ir::SeqNode* op) override;
  void Visit(const ir::BindNode* op) override;
  void Visit(const ir::AssumeNode* op) override;
  void Visit(const ir::IfNode* op) override;
  void Visit(const ir::ForNode* op) override;
  void Visit(const ir::ParallelForNode* op) override;
  void Visit(const ir::WhileNode* op) override;
  void Visit(const ir::KernelLaunchNode* op) override;
  void Visit(const ir::SelectNode* op) override;
  void Visit(const ir::BinaryNode* op) override;  // the right side of `and` and `or`

 protected:
  // Runs `visit` where `condition` holds, or does not.
  virtual void Under(const ir::Expr& condition, bool holds, const std::function<void()>& visit);

  arith::Analyzer analyzer_;
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_SCOPED_VISITOR_H_
