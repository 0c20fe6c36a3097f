// A mutator that tells an analyzer what holds at each point: ranges of variables, conditions.
#ifndef TILELANG_ANALYSIS_SCOPED_MUTATOR_H_
#define TILELANG_ANALYSIS_SCOPED_MUTATOR_H_

#include "arith/analyzer.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

class ScopedMutator : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  ir::Stmt Rewrite(const ir::SeqNode* op) override;
  ir::Stmt Rewrite(const ir::BindNode* op) override;
  ir::Stmt Rewrite(const ir::AssumeNode* op) override;
  ir::Stmt Rewrite(const ir::IfNode* op) override;
  ir::Stmt Rewrite(const ir::ForNode* op) override;
  ir::Stmt Rewrite(const ir::ParallelForNode* op) override;
  ir::Stmt Rewrite(const ir::WhileNode* op) override;
  ir::Stmt Rewrite(const ir::KernelLaunchNode* op) override;
  ir::Expr Rewrite(const ir::SelectNode* op) override;

 protected:
  arith::Analyzer analyzer_;
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_SCOPED_MUTATOR_H_
