#include "check/cluster_agreement.h"

#include <algorithm>
#include <utility>

#include "arith/structural.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"

namespace tilelang::check {

using ir::Expr;
using ir::Stmt;

namespace {

// Memory, and calls that are no functions of their arguments, as values of their own: of variables
// that are `apart`, another one in each block.
class ValuesOfMemory : public ir::ExprMutator {
 public:
  explicit ValuesOfMemory(const std::set<const tvm::ffi::Object*>& apart) : apart_(apart) {}
  using ExprMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    ir::DType t = op->buffer->dtype;
    ir::Var loaded("loaded", t, op->span);
    if (apart_.count(op->buffer.get()) == 0) return loaded;
    Expr differs = ir::MakeEq(ir::Var("value", ir::dtypes::kInt32), op::BlockRank());
    return ir::IsBool(t) ? differs : loaded + ir::CastTo(t, differs);
  }
  Expr Rewrite(const ir::CallNode* op) override {
    if (arith::IsPureCall(op)) return ExprMutator::Rewrite(op);
    return ir::Var("called", op->dtype, op->span);
  }

 private:
  const std::set<const tvm::ffi::Object*>& apart_;
};

class RankSetter : public ir::ExprMutator {
 public:
  explicit RankSetter(int64_t rank) : rank_(rank) {}
  using ExprMutator::Rewrite;
  Expr Rewrite(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kBlockRank)) return ir::Const(op->dtype, rank_);
    return ExprMutator::Rewrite(op);
  }

 private:
  int64_t rank_;
};

}  // namespace

std::vector<Expr> LeavesOf(const Stmt& body) {
  std::vector<Expr> conditions;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* branch = s.as<ir::IfNode>();
    if (branch != nullptr && ir::MayLeaveLoop(s)) conditions.push_back(branch->condition);
    return s->kind != ir::StmtKind::kFor && s->kind != ir::StmtKind::kWhile;
  });
  return conditions;
}

// Collects the values that names stand for, and the values that are stored to variables.
class AssignmentFinder : public ir::StmtVisitor {
 public:
  explicit AssignmentFinder(ClusterAgreement* found) : found_(found) {}
  using StmtVisitor::Visit;

  void Visit(const ir::BindNode* op) override { SetValue(op->var, op->value); }
  void Visit(const ir::AllocNode* op) override {
    if (auto init = op->buffer->attrs.Get("init")) Assign(op->buffer, (*init).cast<Expr>());
  }
  void Visit(const ir::StoreNode* op) override { Assign(op->buffer, op->value); }
  void Visit(const ir::IfNode* op) override {
    Under({op->condition}, [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::WhileNode* op) override {
    std::vector<Expr> decides = LeavesOf(op->body);
    decides.push_back(op->condition);
    Under(decides, [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::ForNode* op) override {
    // Equally many iterations need not have the same numbers.
    ir::Var iteration(op->var->name, op->var.dtype(), op->var->span);
    SetValue(op->var, op->min + iteration);
    std::vector<Expr> decides = LeavesOf(op->body);
    decides.push_back(op->extent);
    Under(decides, [&] { StmtVisitor::Visit(op); });
  }

 private:
  void SetValue(const ir::Var& var, const Expr& value) {
    found_->values_.Set(var, ir::Substitute(value, found_->values_));
  }
  void Assign(const ir::Buffer& buffer, const Expr& value) {
    if (!buffer.IsLocal()) return;
    std::vector<Expr> decided_by = around_;
    decided_by.push_back(value);
    found_->assignments_.push_back({buffer.get(), decided_by});
  }
  template <typename Fn>
  void Under(const std::vector<Expr>& decides, Fn visit) {
    size_t outer = around_.size();
    around_.insert(around_.end(), decides.begin(), decides.end());
    visit();
    around_.resize(outer);
  }
  ClusterAgreement* found_;
  std::vector<Expr> around_;
};

ClusterAgreement::ClusterAgreement(const ir::KernelLaunchNode* launch)
    : block_vars_(launch->block_vars) {
  auto given = launch->attrs.Get("cluster_dims");
  if (given) {
    for (int64_t n : (*given).cast<ir::Array<int64_t>>()) dims_.push_back(n);
  }
  dims_.resize(block_vars_.size(), 1);
  for (const ir::Var& var : block_vars_) {
    clusters_.emplace_back(var->name, var.dtype(), var->span);
    analyzer_.Assume(clusters_.back() >= ir::Const(var.dtype(), 0));
  }
  if (given) AssignmentFinder(this).VisitStmt(launch->body);
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
  return MayDiffer(e, blocks, VariablesApart(blocks));
}

bool ClusterAgreement::MayHold(const Expr& condition, int64_t rank) {
  Expr value = InBlock(ValuesOfMemory({}).Mutate(ValueOf(condition)), rank);
  return !ir::IsConst(analyzer_.Simplify(value), 0);
}

bool ClusterAgreement::MayDiffer(const Expr& e, const Ranks& blocks, const Variables& apart) {
  Expr value = ValuesOfMemory(apart).Mutate(ValueOf(e));
  Expr first = InBlock(value, blocks.front());
  return std::any_of(blocks.begin(), blocks.end(),
                     [&](int64_t rank) { return !AreSame(first, InBlock(value, rank)); });
}

// One that is assigned what may differ, or where that is decided by what may, until there are no
// more.
const ClusterAgreement::Variables& ClusterAgreement::VariablesApart(const Ranks& blocks) {
  auto [it, is_new] = apart_.try_emplace(blocks);
  Variables& apart = it->second;
  for (bool changed = is_new; changed;) {
    changed = false;
    for (const Assignment& assignment : assignments_) {
      if (apart.count(assignment.variable) != 0) continue;
      const auto& all = assignment.decided_by;
      bool differs = std::any_of(all.begin(), all.end(),
                                 [&](const Expr& e) { return MayDiffer(e, blocks, apart); });
      if (differs) changed = apart.insert(assignment.variable).second;
    }
  }
  return apart;
}

// Returns whether an expression has the same value in two blocks. It has if the blocks compare and
// combine the same values.
bool ClusterAgreement::AreSame(const Expr& a, const Expr& b) {
  if (arith::SameStructure(analyzer_.Simplify(a), analyzer_.Simplify(b))) return true;
  if (!ir::IsBool(a.dtype())) return ir::IsIntegral(a.dtype()) && analyzer_.CanProveEqual(a, b);
  if (const auto* negated = a.as<ir::UnaryNode>()) {
    const auto* other = b.as<ir::UnaryNode>();
    return other != nullptr && negated->Op() == other->Op() && AreSame(negated->a, other->a);
  }
  const auto *x = a.as<ir::BinaryNode>(), *y = b.as<ir::BinaryNode>();
  return x != nullptr && y != nullptr && x->Op() == y->Op() && AreSame(x->a, y->a) &&
         AreSame(x->b, y->b);
}

}  // namespace tilelang::check
