#include "lower/broadcast_elements.h"

#include <tvm/ffi/cast.h>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "op/effect.h"
#include "op/relayout.h"
#include "op/row_vote.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

class Broadcaster : public analysis::ScopedMutator {
 public:
  Broadcaster(const ir::Func& func, const ir::KernelLaunchNode* launch)
      : threads_(analysis::ThreadsOf(launch)),
        layouts_((*launch->attrs.Get("layout_map")).cast<ir::Map<ir::Buffer, ir::Any>>()),
        ctx_{{}, {0, threads_.count}, threads_.linear, threads_.count, &layouts_, &analyzer_} {
    analyzer_.BindParams(func->params);
    analyzer_.BindLaunch(launch);
  }

  using ScopedMutator::Rewrite;

  Expr Rewrite(const ir::LoadNode* op) override {
    Expr load = ScopedMutator::Rewrite(op);
    return before_ != nullptr && IsSpread(op->buffer) ? Staged(load.as<ir::LoadNode>()) : load;
  }
  // Calls that are given a place, or ask for what the thread itself holds.
  Expr Rewrite(const ir::CallNode* op) override {
    Expr call = ffi::GetRef<Expr>(op);
    bool by_place = op->Is(ir::Builtin::kAddressOf) || op::FlagsOf(call).defined();
    return by_place ? call : ScopedMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::StoreNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::BindNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::EvaluateNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::AssertNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::ArriveNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::WaitParityNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::BarrierNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::CopyNode* op) override { return Plain(op); }
  Stmt Rewrite(const ir::ParallelForNode* op) override { return ffi::GetRef<Stmt>(op); }
  Stmt Rewrite(const ir::IfNode* op) override {
    return WithBroadcasts(op->span, [&]() -> Stmt {
      Expr condition = Mutate(op->condition);
      if (condition.same_as(op->condition)) return Inside(op);
      ir::If staged(condition, op->then_case, op->else_case, op->span);
      return Inside(staged.get());
    });
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    if (op->Kind() == ir::ForKind::kVectorized) return ffi::GetRef<Stmt>(op);
    return WithBroadcasts(op->span, [&]() -> Stmt {
      Expr min = Mutate(op->min), extent = Mutate(op->extent);
      if (min.same_as(op->min) && extent.same_as(op->extent)) return Inside(op);
      ir::For staged(op->var, min, extent, op->Kind(), op->body, op->annotations, op->span);
      return Inside(staged.get());
    });
  }

 private:
  template <typename Node>
  Stmt Plain(const Node* op) {
    return WithBroadcasts(op->span, [&] { return ScopedMutator::Rewrite(op); });
  }
  // The body of a statement whose head has been rewritten.
  template <typename Node>
  Stmt Inside(const Node* op) {
    std::vector<Stmt>* head = std::exchange(before_, nullptr);
    Stmt result = ScopedMutator::Rewrite(op);
    before_ = head;
    return result;
  }

  template <typename Fn>
  Stmt WithBroadcasts(const ir::Span& span, const Fn& rewrite) {
    std::vector<Stmt> stmts;
    std::vector<Stmt>* outer = std::exchange(before_, &stmts);
    Stmt s = rewrite();
    before_ = outer;
    if (stmts.empty()) return s;
    stmts.push_back(s);
    return op::Sequence(stmts, span);
  }

  bool IsSpread(const ir::Buffer& buffer) {
    if (!buffer.IsFragment()) return false;
    auto fragment = layouts_.GetFragment(buffer);
    return fragment && !op::IsHeldByAll(*fragment, analysis::ActiveThreads(threads_, &analyzer_));
  }

  Expr Staged(const ir::LoadNode* op) {
    ctx_.threads = analysis::ActiveThreads(threads_, &analyzer_);
    Array<Expr> indices = op->indices;
    ir::Region read = ir::Region::Whole(op->buffer);
    if (ir::AsInts(indices)) {
      Array<Expr> ones, zeros;
      for (size_t d = 0; d < indices.size(); ++d) {
        ones.push_back(ir::Const(ir::dtypes::kInt32, 1));
        zeros.push_back(ir::Const(ir::dtypes::kInt32, 0));
      }
      read = ir::Region(op->buffer, indices, ones);
      indices = zeros;
    }
    return ir::Load(op::StageRead(read, op->span, &ctx_, before_), indices, op->span);
  }

  analysis::LaunchThreads threads_;
  op::LayoutMap layouts_;
  op::Context ctx_;
  std::vector<Stmt>* before_ = nullptr;  // what stands before the statement; null: nothing can
};

class ElementBroadcaster : public ir::StmtMutator {
 public:
  explicit ElementBroadcaster(const ir::Func& func) : func_(func) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt body = Broadcaster(func_, op).MutateStmt(op->body);
    if (body.same_as(op->body)) return ffi::GetRef<Stmt>(op);
    return ir::WithBody(op, body);
  }

 private:
  const ir::Func& func_;
};

}  // namespace

ir::Func BroadcastElements(const ir::Func& func) {
  return func.WithBody(ElementBroadcaster(func).MutateStmt(func->body));
}

}  // namespace tilelang::lower
