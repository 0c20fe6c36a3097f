#include "transform/join_stores.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <array>
#include <vector>

#include "analysis/scoped_mutator.h"
#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "transform/loaded_elements.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

Expr NumberLike(const Expr& e, int64_t value) { return ir::Const(e.dtype(), value); }

class StoreJoiner : public analysis::ScopedMutator {
 public:
  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    bool fits = op->annotations.empty() && ir::AsInt(op->extents.back()) && TouchesOneResult(op);
    if (!fits) return self;
    names_ = IndexNames(op);
    last_ = op->vars.back();
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < op->vars.size(); ++i) {
      analyzer_.Bind(op->vars[i], NumberLike(op->vars[i], 0), op->extents[i]);
    }
    parts_ = 0;
    Stmt joined = Joined(op->body);
    if (!joined.defined()) return self;
    ir::Var var(last_->name, last_->dtype, op->span);
    Expr parts = NumberLike(var, parts_);
    Stmt body = ir::Substitute(
        joined, {{last_, ir::FloorDiv(var, parts)}, {lane_, ir::FloorMod(var, parts)}});
    ir::Array<ir::Var> vars = op->vars;
    vars.Set(static_cast<int64_t>(vars.size()) - 1, var);
    ir::Array<Expr> extents = op->extents;
    extents.Set(static_cast<int64_t>(extents.size()) - 1,
                NumberLike(extents.back(), *ir::AsInt(extents.back()) * parts_));
    return ir::ParallelFor(vars, extents, body, op->annotations, op->span);
  }

 private:
  static constexpr std::array<size_t, 3> kParts = {2, 4, 8};

  // Returns whether the loop only writes elements of one buffer, which it does not read, and
  // touches no fragment.
  static bool TouchesOneResult(const ir::ParallelForNode* op) {
    std::vector<ir::Effect> effects = ir::EffectsOf(op->body);
    const ir::Buffer* result = nullptr;
    for (const ir::Effect& e : effects) {
      bool known = e.buffer.IsGlobal() || e.buffer.IsShared();
      if (!known || (e.Writes() && e.kind != ir::EffectKind::kWrite)) return false;
      if (!e.Writes()) continue;
      if (result != nullptr && !result->same_as(e.buffer)) return false;
      result = &e.buffer;
    }
    return result != nullptr && std::none_of(effects.begin(), effects.end(), [&](const auto& e) {
             return e.Reads() && ir::MayOverlap(e.buffer, *result);
           });
  }

  // Returns the statement with one store, in which lane_ selects; null if stores do not interleave.
  Stmt Joined(const Stmt& s) {
    if (const auto* branch = s.as<ir::IfNode>()) {
      if (branch->else_case.defined()) return Stmt();
      Stmt inner = Joined(branch->then_case);
      return inner.defined() ? Stmt(ir::If(branch->condition, inner, Stmt(), branch->span)) : inner;
    }
    const auto* seq = s.as<ir::SeqNode>();
    if (seq == nullptr) return Stmt();
    std::vector<Stmt> stmts;
    std::vector<const ir::StoreNode*> stores;
    for (const Stmt& child : seq->stmts) {
      const auto* store = child.as<ir::StoreNode>();
      if (store != nullptr) {
        stores.push_back(store);
      } else if (child->kind == ir::StmtKind::kBind) {
        stmts.push_back(child);
      } else {
        return Stmt();
      }
    }
    if (std::count(kParts.begin(), kParts.end(), stores.size()) == 0) return Stmt();
    parts_ = static_cast<int64_t>(stores.size());
    Stmt store = JoinedStore(stores);
    if (!store.defined()) return Stmt();
    stmts.push_back(store);
    return ir::MakeSeq(stmts, seq->span);
  }

  // Returns the store of all lanes. Names in front of it do not depend on what stores write.
  Stmt JoinedStore(const std::vector<const ir::StoreNode*>& stores) {
    std::vector<const ir::StoreNode*> lanes(stores.size(), nullptr);
    for (const ir::StoreNode* store : stores) {
      auto lane = LaneOf(store, stores.front());
      if (!lane || lanes[*lane] != nullptr) return Stmt();
      lanes[*lane] = store;
    }
    lane_ = ir::Var("lane", last_->dtype, stores.front()->span);
    Expr value = lanes.back()->value;
    for (size_t i = lanes.size() - 1; i-- > 0;) {
      value = ir::Select(ir::MakeEq(lane_, NumberLike(lane_, static_cast<int64_t>(i))),
                         lanes[i]->value, value);
    }
    ir::Array<Expr> indices = lanes.front()->indices;
    const Expr& first = indices.back();
    indices.Set(static_cast<int64_t>(indices.size()) - 1, first + ir::CastTo(first.dtype(), lane_));
    return ir::Store(lanes.front()->buffer, indices, value, stores.front()->span);
  }

  // Returns the residue of the last index; nothing if the store does not go by parts_ along it.
  std::optional<size_t> LaneOf(const ir::StoreNode* store, const ir::StoreNode* other) {
    size_t rank = store->indices.size();
    if (rank == 0 || rank != other->indices.size()) return std::nullopt;
    for (size_t d = 0; d + 1 < rank; ++d) {
      Expr index = ir::Substitute(store->indices[d], names_);
      bool same = arith::SameStructure(index, ir::Substitute(other->indices[d], names_));
      if (!same || ir::UsesVar(index, last_)) return std::nullopt;
    }
    Expr index = ir::Substitute(store->indices.back(), names_);
    Expr of_other = ir::Substitute(other->indices.back(), names_);
    if (analyzer_.StrideOf(index, last_) != parts_) return std::nullopt;
    auto lane = ir::AsInt(analyzer_.Simplify(ir::FloorMod(index, NumberLike(index, parts_))));
    auto of_first =
        ir::AsInt(analyzer_.Simplify(ir::FloorMod(of_other, NumberLike(index, parts_))));
    bool apart = lane && of_first &&
                 analyzer_.CanProveEqual(index - of_other, NumberLike(index, *lane - *of_first));
    return apart ? std::optional(static_cast<size_t>(*lane)) : std::nullopt;
  }

  ir::Map<ir::Var, Expr> names_;
  ir::Var last_;
  ir::Var lane_;
  int64_t parts_ = 0;
};

}  // namespace

ir::Func JoinStores(const ir::Func& func) {
  return func.WithBody(StoreJoiner().MutateStmt(func->body));
}

}  // namespace tilelang::transform
