#include "transform/run_own_work.h"

#include <optional>

#include "analysis/own_work.h"
#include "ir/visitor.h"
#include "op/copy.h"

namespace tilelang::transform {

using ir::Stmt;

namespace {

class OwnWorkRunner : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    own_.emplace(op, analysis::Uniformity(op));
    return StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (!own_ || !own_->Has(op)) return StmtMutator::Rewrite(op);
    return op::ExpandCopy(op, op::TileWork::kOfEachThread);
  }
  Stmt Rewrite(const ir::FillNode* op) override {
    if (!own_ || !own_->Has(op)) return StmtMutator::Rewrite(op);
    return op::ExpandFill(op, op::TileWork::kOfEachThread);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    if (!own_ || !own_->Has(op)) return StmtMutator::Rewrite(op);
    return op::RunByEachThread(op);
  }

 private:
  std::optional<analysis::OwnWork> own_;
};

}  // namespace

ir::Func RunOwnWork(const ir::Func& func) {
  return func.WithBody(OwnWorkRunner().MutateStmt(func->body));
}

}  // namespace tilelang::transform
