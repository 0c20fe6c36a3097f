#include "transform/share_decisions.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "analysis/uniformity.h"
#include "check/check_parts.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "op/effect.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

bool HasTileOp(const Stmt& s) {
  return ir::HasStmt(s, [&](const Stmt& part) { return check::TileOpName(part) != nullptr; });
}

// All of its writes.
bool IsWrittenByOperators(const ir::KernelLaunchNode* launch, const Buffer& fragment) {
  bool by_operators = true;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (s->kind == ir::StmtKind::kParallelFor || check::TileOpName(s) != nullptr) return false;
    const auto* store = s.as<ir::StoreNode>();
    by_operators = by_operators && !(store != nullptr && store->buffer.same_as(fragment));
    const auto* evaluate = s.as<ir::EvaluateNode>();
    by_operators = by_operators && !(evaluate != nullptr && ir::UsesBuffer(s, fragment));
    return by_operators;
  });
  return by_operators;
}

// Calls `use` with the conditions under which an iteration leaves the loop, or goes on to the next
// one.
void ForEachExit(const Stmt& body, const std::function<void(const Expr&)>& use) {
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* branch = s.as<ir::IfNode>();
    if (branch != nullptr && ir::MayLeaveLoop(s)) use(branch->condition);
    return s->kind != ir::StmtKind::kFor && s->kind != ir::StmtKind::kWhile;
  });
}

// Calls `use` with the expressions that decide about tile operators.
void ForEachDecision(const ir::KernelLaunchNode* launch,
                     const std::function<void(const Expr&)>& use) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (s->kind == ir::StmtKind::kParallelFor) return false;
    if (const auto* op = s.as<ir::CopyNode>()) {
      for (const ir::Region& region : {op->src, op->dst}) {
        for (const Expr& min : region->mins) use(min);
      }
    }
    bool decides = s->kind == ir::StmtKind::kIf || s->kind == ir::StmtKind::kFor ||
                   s->kind == ir::StmtKind::kWhile;
    if (!decides || !HasTileOp(s)) return true;
    if (const auto* op = s.as<ir::IfNode>()) use(op->condition);
    if (const auto* op = s.as<ir::WhileNode>()) {
      use(op->condition);
      ForEachExit(op->body, use);
    }
    if (const auto* op = s.as<ir::ForNode>()) {
      use(op->min);
      use(op->extent);
      ForEachExit(op->body, use);
    }
    return true;
  });
}

// The values that names and variables of threads may have in it, and what these depend on.
class Sources {
 public:
  explicit Sources(const ir::KernelLaunchNode* launch) {
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      if (const auto* bind = s.as<ir::BindNode>()) values_.emplace(bind->var.get(), bind->value);
      const auto* store = s.as<ir::StoreNode>();
      if (store != nullptr && store->buffer.IsLocal()) {
        values_.emplace(store->buffer.get(), store->value);
      }
      return true;
    });
  }

  void Walk(const Expr& e, const std::function<void(const ir::LoadNode*)>& use) {
    ir::WalkExprs(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      if (load != nullptr) use(load);
      const ffi::Object* named = part.get();
      if (load != nullptr) named = load->buffer.get();
      auto [first, last] = values_.equal_range(named);
      if (first != last && seen_.insert(named).second) {
        for (; first != last; ++first) Walk(first->second, use);
      }
      return true;
    });
  }

 private:
  std::unordered_multimap<const ffi::Object*, Expr> values_;
  std::unordered_set<const ffi::Object*> seen_;
};

class Sharer : public ir::StmtMutator {
 public:
  explicit Sharer(const ir::KernelLaunchNode* launch) {
    analysis::Uniformity uniformity(launch);
    Sources sources(launch);
    ForEachDecision(launch, [&](const Expr& decision) {
      if (uniformity.IsUniform(decision)) return;
      sources.Walk(decision, [&](const ir::LoadNode* load) {
        if (!load->buffer.IsFragment()) return;
        bool one_value = std::all_of(load->indices.begin(), load->indices.end(),
                                     [&](const Expr& i) { return uniformity.IsUniform(i); });
        if (!one_value || !IsWrittenByOperators(launch, load->buffer)) return;
        loads_.insert(load);
        if (twins_.count(load->buffer) == 0) twins_.Set(load->buffer, TwinOf(load->buffer));
      });
    });
  }
  bool IsNeeded() const { return !twins_.empty(); }

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    if (loads_.count(op) == 0) return StmtMutator::Rewrite(op);
    return ir::Load(twins_[op->buffer], MutateExprs(op->indices), op->span);
  }
  Stmt MutateStmt(const Stmt& s) override {
    Stmt rewritten = StmtMutator::MutateStmt(s);
    std::vector<Stmt> stmts = {rewritten};
    if (const auto* alloc = s.as<ir::AllocNode>()) {
      auto twin = twins_.find(alloc->buffer);
      if (twin != twins_.end()) stmts.push_back(ir::Alloc((*twin).second, s.span()));
      // Declarations hold in the sequence in which they stand.
      return ir::MakeSeq(stmts, s.span());
    }
    if (s->kind != ir::StmtKind::kParallelFor && check::TileOpName(s) == nullptr) return rewritten;
    for (const ir::Effect& effect : ir::EffectsOf(s)) {
      auto twin = twins_.find(effect.buffer);
      if (!effect.Writes() || twin == twins_.end()) continue;
      stmts.push_back(
          ir::Copy(ir::Region::Whole(effect.buffer), ir::Region::Whole((*twin).second), s.span()));
    }
    return op::Sequence(stmts, s.span());
  }
  // Declarations of a sequence stay in it.
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      Stmt rewritten = MutateStmt(s);
      const auto* parts = rewritten.as<ir::SeqNode>();
      if (s->kind == ir::StmtKind::kSeq || parts == nullptr) {
        stmts.push_back(rewritten);
      } else {
        stmts.insert(stmts.end(), parts->stmts.begin(), parts->stmts.end());
      }
    }
    return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  static Buffer TwinOf(const Buffer& fragment) {
    return Buffer(std::string(fragment->name) + "_shared", fragment->dtype, fragment->shape, {},
                  "shared.dyn", {}, fragment->span);
  }

  std::unordered_set<const ffi::Object*> loads_;
  ir::Map<Buffer, Buffer> twins_;
};

class Launches : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Sharer sharer(op);
    if (!sharer.IsNeeded()) return ffi::GetRef<Stmt>(op);
    return ir::WithBody(op, sharer.MutateStmt(op->body));
  }
};

}  // namespace

ir::Func ShareDecisions(const ir::Func& func) {
  return func.WithBody(Launches().MutateStmt(func->body));
}

}  // namespace tilelang::transform
