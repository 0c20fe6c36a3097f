#include "analysis/own_work.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/tile_op.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"

namespace tilelang::analysis {

using ir::Buffer;
using ir::Expr;

namespace {

bool IsOfAllThreads(const Buffer& buffer) { return buffer.IsGlobal() || buffer.IsShared(); }

class OwnWorkFinder : public ir::StmtVisitor {
 public:
  OwnWorkFinder(const Uniformity& uniformity, std::unordered_set<const ir::StmtNode*>* own)
      : uniformity_(uniformity), own_(own), active_(uniformity.threads().All()) {}
  using StmtVisitor::Visit;

  void Visit(const ir::CopyNode* op) override {
    const Buffer& src = op->src->buffer;
    const Buffer& dst = op->dst->buffer;
    bool asynchronous = op->mbar.defined() || op->block.defined() || op::AsyncCopyName(op);
    bool from_all = IsOfAllThreads(src);
    if (asynchronous || !(from_all || src.IsLocal())) return;
    bool varies = Varies(op->dst->mins) || (from_all && Varies(op->src->mins));
    bool own = dst.IsLocal() || (src.IsLocal() && (op->Adds() || IsReachedByFew()));
    if (own || (IsOfAllThreads(dst) && varies)) own_->insert(op);
  }
  void Visit(const ir::FillNode* op) override {
    const Buffer& dst = op->dst->buffer;
    if (dst.IsLocal() || (IsOfAllThreads(dst) && Varies(op->dst->mins))) own_->insert(op);
  }
  void Visit(const ir::ParallelForNode* op) override {
    if (!RunsInEveryThread(op)) return;
    bool own = IsReachedByFew() || CallsWithVaryingArguments(op->body);
    ir::WalkEffects(op->body, [&](const ir::Effect& effect) {
      own |= effect.Writes() && IsOfAllThreads(effect.buffer) && Varies(effect.indices);
    });
    if (own) own_->insert(op);
  }
  void Visit(const ir::IfNode* op) override {
    ThreadSet outer = active_;
    bool divergent = divergent_;
    ThreadSelection selection = uniformity_.threads().Select(op->condition, outer);
    bool by_index = selection.rest.empty() && selection.threads.AsRange().has_value();
    bool uniform = uniformity_.IsUniform(op->condition, outer);
    if (by_index) active_ = selection.threads;
    divergent_ = divergent || !(uniform || by_index);
    VisitStmt(op->then_case);
    ThreadSet others = outer - selection.threads;
    by_index = by_index && others.AsRange().has_value();
    if (by_index) active_ = others;
    divergent_ = divergent || !(uniform || by_index);
    if (op->else_case.defined()) VisitStmt(op->else_case);
    active_ = outer;
    divergent_ = divergent;
  }
  void Visit(const ir::ForNode* op) override {
    Within(op, [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::WhileNode* op) override {
    Within(op, [&] { StmtVisitor::Visit(op); });
  }

 private:
  // Threads that are not whole warps, known when compiling, share no work.
  bool IsReachedByFew() const { return divergent_ || !active_.AsWarps(); }
  bool Varies(const ir::Array<Expr>& indices) const {
    return !std::all_of(indices.begin(), indices.end(),
                        [&](const Expr& e) { return uniformity_.IsUniform(e, active_); });
  }
  // Returns whether threads pass different values, or different places in shared or global memory,
  // to an operation on such a place, such as an atomic one.
  bool CallsWithVaryingArguments(const ir::Stmt& body) const {
    return ir::HasExpr(body, [&](const Expr& e) {
      const auto* call = e.as<ir::CallNode>();
      if (call == nullptr || call->Is(ir::Builtin::kAddressOf)) return false;
      bool on_memory = std::any_of(call->args.begin(), call->args.end(), [](const Expr& arg) {
        const ir::LoadNode* place = ir::AddressedElement(arg);
        return place != nullptr && IsOfAllThreads(place->buffer);
      });
      return on_memory && Varies(call->args);
    });
  }
  template <typename Fn>
  void Within(const ir::StmtNode* loop, Fn visit) {
    bool outer = divergent_;
    divergent_ = outer || !uniformity_.IsUniformLoop(loop);
    visit();
    divergent_ = outer;
  }

  const Uniformity& uniformity_;
  std::unordered_set<const ir::StmtNode*>* own_;
  ThreadSet active_;        // the threads that conditions on the thread index select
  bool divergent_ = false;  // other conditions may keep some of them away
};

}  // namespace

OwnWork::OwnWork(const ir::KernelLaunchNode* launch, const Uniformity& uniformity) {
  OwnWorkFinder(uniformity, &own_).VisitStmt(launch->body);
}

}  // namespace tilelang::analysis
