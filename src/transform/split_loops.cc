#include "transform/split_loops.h"

#include <optional>

#include "ir/arithmetic.h"
#include "ir/fresh_copy.h"

namespace tilelang::transform {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

bool Has(const Stmt& s, ir::StmtKind kind) {
  return ir::HasStmt(s, [&](const Stmt& inner) { return inner->kind == kind; });
}

// Iterations: fewer become code without loops, which is better off without copies.
constexpr int64_t kWorthIt = 4;

// Does not change while a loop runs.
bool IsFixed(const Expr& e, const ir::ForNode* loop) {
  bool fixed = !ir::UsesVar(e, loop->var) && ir::IsArithmetic(e);
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    const auto* bind = s.as<ir::BindNode>();
    fixed &= bind == nullptr || !ir::UsesVar(e, bind->var);
    return fixed;
  });
  return fixed;
}

// A statement of a loop's body, and the iteration from which on it runs.
struct Tail {
  size_t at;
  Expr bound;
};

std::optional<Tail> FindTail(const ir::ForNode* loop, const ir::SeqNode* body) {
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const auto* branch = body->stmts[i].as<ir::IfNode>();
    if (branch == nullptr || branch->else_case.defined()) continue;
    const auto* test = branch->condition.as<ir::BinaryNode>();
    if (test == nullptr || !Has(branch->then_case, ir::StmtKind::kParallelFor)) continue;
    bool from = test->Op() == BinaryOp::kGe && test->a.same_as(loop->var);
    bool until = test->Op() == BinaryOp::kLe && test->b.same_as(loop->var);
    Expr bound = from ? test->b : test->a;
    if ((from || until) && IsFixed(bound, loop)) return Tail{i, bound};
  }
  return std::nullopt;
}

// Returns whether the statement allocates tensor memory, which warps of other roles use, too: both
// parts of the loop use the same.
bool IsShared(const Stmt& s) {
  const auto* alloc = s.as<ir::AllocNode>();
  return alloc != nullptr && alloc->buffer.IsTmem();
}

class LoopSplitter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt inner = StmtMutator::Rewrite(op);
    const auto* loop = inner.as<ir::ForNode>();
    const auto* body = loop->body.as<ir::SeqNode>();
    bool fits = loop->Kind() == ir::ForKind::kSerial && body != nullptr &&
                Has(loop->body, ir::StmtKind::kGemm) && !Has(loop->body, ir::StmtKind::kBreak) &&
                !Has(loop->body, ir::StmtKind::kContinue);
    if (!fits) return inner;
    auto tail = FindTail(loop, body);
    if (!tail || ir::AsInt(loop->extent).value_or(kWorthIt) < kWorthIt) return inner;
    Expr zero = ir::Const(loop->extent.dtype(), 0);
    Expr skipping = ir::Min(ir::Max(tail->bound - loop->min, zero), loop->extent);
    ir::Var count("skipping", loop->extent.dtype(), loop->span);
    std::vector<Stmt> parts, without, with;
    for (size_t i = 0; i < body->stmts.size(); ++i) {
      const Stmt& s = body->stmts[i];
      if (IsShared(s)) {
        parts.push_back(s);
      } else {
        if (i != tail->at) without.push_back(s);
        with.push_back(i == tail->at ? s.as<ir::IfNode>()->then_case : s);
      }
    }
    ++splits_;
    parts.push_back(ir::Bind(count, skipping, loop->span));
    parts.push_back(Part(loop, 0, loop->min, count, without));
    parts.push_back(Part(loop, 1, loop->min + count, loop->extent - count, with));
    return ir::MakeSeq(parts, loop->span);
  }

 private:
  Stmt Part(const ir::ForNode* loop, int64_t number, const Expr& min, const Expr& extent,
            const std::vector<Stmt>& body) const {
    auto annotations = loop->annotations;
    annotations.Set(ir::kSplitLoop, ir::Array<int64_t>{splits_, number});
    ir::For part(loop->var, min, extent, loop->Kind(), ir::MakeSeq(body, loop->body.span()),
                 annotations, loop->span);
    return ir::FreshCopy().MutateStmt(part);
  }

  int64_t splits_ = 0;
};

}  // namespace

ir::Func SplitLoops(const ir::Func& func) {
  return func.WithBody(LoopSplitter().MutateStmt(func->body));
}

}  // namespace tilelang::transform
