#include "transform/lead_pairs.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <vector>

#include "check/cluster_agreement.h"
#include "ir/changed_launch.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

class PairLeaderSelector : public ir::StmtMutator {
 public:
  explicit PairLeaderSelector(const ir::KernelLaunchNode* launch)
      : size_(op::ClusterSize(launch)), agreement_(launch) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::GemmNode* op) override {
    auto self = ffi::GetRef<Stmt>(op);
    return op::IsInPairs(op) && !op::WaitsItself(op) ? ByLeader(self) : self;
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    auto self = ffi::GetRef<Stmt>(op);
    return op->options->in_pairs ? ByLeader(self) : self;
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    Stmt then_case = Where(op->condition, op->then_case);
    Stmt else_case = op->else_case;
    if (else_case.defined()) else_case = Where(ir::Not(op->condition), else_case);
    return ir::If(op->condition, then_case, else_case, op->span);
  }

 private:
  Stmt Where(const Expr& condition, const Stmt& body) {
    conditions_.push_back(condition);
    Stmt result = MutateStmt(body);
    conditions_.pop_back();
    return result;
  }
  // Returns whether a block with this rank in its pair may get here.
  bool MayReach(int64_t rank_in_pair) {
    for (int64_t rank = rank_in_pair; rank < size_; rank += op::kPairBlocks) {
      bool reaches =
          std::all_of(conditions_.begin(), conditions_.end(),
                      [&](const Expr& condition) { return agreement_.MayHold(condition, rank); });
      if (reaches) return true;
    }
    return false;
  }
  Stmt ByLeader(const Stmt& s) {
    bool both = MayReach(0) && MayReach(1);
    return both ? Stmt(ir::If(op::IsPairLeader(), s, Stmt(), s.span())) : s;
  }

  int64_t size_;
  check::ClusterAgreement agreement_;
  std::vector<Expr> conditions_;  // around the statement
};

class LaunchMutator : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    bool in_pairs = op::ClusterSize(op) % op::kPairBlocks == 0 && op::HasGemmsInPairs(op->body);
    if (!in_pairs) return ffi::GetRef<Stmt>(op);
    Stmt body = PairLeaderSelector(op).MutateStmt(op->body);
    return ir::WithBody(op, body);
  }
};

}  // namespace

ir::Func LeadPairs(const ir::Func& func) {
  return func.WithBody(LaunchMutator().MutateStmt(func->body));
}

}  // namespace tilelang::transform
