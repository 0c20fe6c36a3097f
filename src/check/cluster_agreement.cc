#include "check/cluster_agreement.h"

#include <algorithm>

#include "arith/structural.h"
#include "ir/visitor.h"

namespace tilelang::check {

using ir::Expr;

namespace {

// Memory, and calls that are no functions of their arguments, as variables of their own.
class ValuesOfMemory : public ir::ExprMutator {
 public:
  using ExprMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    return ir::Var("loaded", op->buffer->dtype, op->span);
  }
  Expr Rewrite(const ir::CallNode* op) override {
    if (arith::IsPureCall(op)) return ExprMutator::Rewrite(op);
    return ir::Var("called", op->dtype, op->span);
  }
};

class RankSetter : public ir::ExprMutator {
 public:
  explicit RankSetter(int64_t rank) : rank_(rank) {}
  using ExprMutator::Rewrite;
  Expr Rewrite(const ir::CallNode* op) override {
    if (op->name == "block_rank_in_cluster") return ir::Const(op->dtype, rank_);
    return ExprMutator::Rewrite(op);
  }

 private:
  int64_t rank_;
};

}  // namespace

ClusterAgreement::ClusterAgreement(const ir::KernelLaunchNode* launch)
    : block_vars_(launch->block_vars) {
  auto given = launch->attrs.Get("cluster_dims");
  if (given) {
    for (int64_t n : (*given).cast<ir::Array<int64_t>>()) dims_.push_back(n);
  }
  dims_.resize(block_vars_.size(), 1);
  for (size_t i = 0; i < block_vars_.size(); ++i) {
    const ir::Var& var = block_vars_[i];
    clusters_.emplace_back(var->name, var.dtype(), var->span);
    analyzer_.Assume(clusters_.back() >= ir::Const(var.dtype(), 0));
  }
}

void ClusterAgreement::Bind(const ir::Var& var, const Expr& value) {
  values_.Set(var, ir::Substitute(ValuesOfMemory().Mutate(value), values_));
}

Expr ClusterAgreement::InBlock(const Expr& e, int64_t rank) const {
  ir::Map<ir::Var, Expr> indices;
  int64_t rest = rank;
  for (size_t i = 0; i < block_vars_.size(); ++i) {
    ir::DType t = block_vars_[i].dtype();
    Expr index = clusters_[i] * ir::Const(t, dims_[i]) + ir::Const(t, rest % dims_[i]);
    indices.Set(block_vars_[i], index);
    rest /= dims_[i];
  }
  return RankSetter(rank).Mutate(ir::Substitute(e, indices));
}

bool ClusterAgreement::MayDiffer(const Expr& e, const Ranks& blocks) {
  Expr value = ir::Substitute(ValuesOfMemory().Mutate(e), values_);
  Expr first = InBlock(value, blocks.front());
  return std::any_of(blocks.begin(), blocks.end(),
                     [&](int64_t rank) { return !AreSame(first, InBlock(value, rank)); });
}

// Of one expression in two blocks: what they compare and combine is the same, too.
bool ClusterAgreement::AreSame(const Expr& a, const Expr& b) {
  if (arith::SameStructure(analyzer_.Simplify(a), analyzer_.Simplify(b))) return true;
  if (!ir::IsBool(a.dtype())) return ir::IsIntegral(a.dtype()) && analyzer_.CanProveEqual(a, b);
  const auto *x = a.as<ir::BinaryNode>(), *y = b.as<ir::BinaryNode>();
  return x != nullptr && y != nullptr && x->Op() == y->Op() && AreSame(x->a, y->a) &&
         AreSame(x->b, y->b);
}

}  // namespace tilelang::check
