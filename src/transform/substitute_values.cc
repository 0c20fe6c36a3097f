#include "transform/substitute_values.h"

#include <tvm/ffi/cast.h>

#include <unordered_map>
#include <unordered_set>

#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

// Examines whether all names in a body can be replaced.
class Examiner {
 public:
  explicit Examiner(const Stmt& body) {
    ir::WalkEffects(body, [&](const ir::Effect& e) {
      if (e.Writes()) written_.insert(ir::MemoryOf(e.buffer));
      if (!e.buffer.IsGlobal() && !e.buffer.IsShared()) Chooses(e.indices);
    });
    ir::WalkStmts(body, [&](const Stmt& s) {
      const auto* bind = s.as<ir::BindNode>();
      if (bind != nullptr) Name(bind);
      bool simple = bind != nullptr || s->kind == ir::StmtKind::kSeq ||
                    s->kind == ir::StmtKind::kIf || s->kind == ir::StmtKind::kStore;
      ok_ = ok_ && simple;
      return ok_;
    });
  }
  bool Replaceable() const { return ok_ && !sizes_.empty(); }

 private:
  // Elements of a fragment by a name, which may lie outside of it under a condition: how they are
  // distributed is looked for without knowing the name's value.
  void Chooses(const ir::Array<Expr>& indices) {
    for (const Expr& index : indices) {
      ir::WalkExprs(index, [&](const Expr& e) {
        if (e->kind == ir::ExprKind::kVar) choosing_.insert(e.get());
        return true;
      });
    }
  }
  void Name(const ir::BindNode* bind) {
    int64_t size = 0;
    ir::WalkExprs(bind->value, [&](const Expr& e) {
      auto known = sizes_.find(e.get());
      size += known == sizes_.end() ? 1 : known->second;
      const auto* load = e.as<ir::LoadNode>();
      ok_ = ok_ && (load == nullptr || written_.count(ir::MemoryOf(load->buffer)) == 0);
      return true;
    });
    sizes_[bind->var.get()] = size;
    bool chooses = choosing_.count(bind->var.get()) != 0;
    ok_ = ok_ && size <= kMostNodes && !chooses && arith::IsPure(bind->value);
  }

  std::unordered_set<const tvm::ffi::Object*> written_, choosing_;
  std::unordered_map<const tvm::ffi::Object*, int64_t> sizes_;
  bool ok_ = true;
};

class Substituter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ParallelForNode* op) override { return Loop(op); }
  Stmt Rewrite(const ir::ForNode* op) override {
    return op->Kind() == ir::ForKind::kVectorized ? Loop(op) : StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::SeqNode* op) override {
    if (!inside_) return StmtMutator::Rewrite(op);
    std::vector<Stmt> kept;
    for (const Stmt& s : op->stmts) {
      if (const auto* bind = s.as<ir::BindNode>()) {
        values_.Set(bind->var, Mutate(bind->value));
      } else {
        kept.push_back(MutateStmt(s));
      }
    }
    return ir::MakeSeq(kept, op->span);
  }
  Expr Rewrite(const ir::VarNode* op) override {
    auto it = values_.find(tvm::ffi::GetRef<ir::Var>(op));
    return it == values_.end() ? tvm::ffi::GetRef<Expr>(op) : (*it).second;
  }

 private:
  template <typename LoopNode>
  Stmt Loop(const LoopNode* op) {
    bool outer = inside_;
    inside_ = inside_ || Examiner(op->body).Replaceable();
    Stmt loop = StmtMutator::Rewrite(op);
    inside_ = outer;
    return loop;
  }

  bool inside_ = false;
  ir::Map<ir::Var, Expr> values_;
};

}  // namespace

ir::Func SubstituteValues(const ir::Func& func) {
  return func.WithBody(Substituter().MutateStmt(func->body));
}

}  // namespace tilelang::transform
