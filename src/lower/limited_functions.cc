#include "lower/limited_functions.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arith/structural.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "layout/layout.h"

namespace tilelang::lower {

using ir::Expr;
using ir::Stmt;

namespace {

bool IsOneOf(const ir::CallNode* call, const std::set<std::string_view>& names) {
  return names.count(std::string_view(call->name.data(), call->name.size())) != 0;
}

// Returns whether a function is defined from 0 on only, or infinite there.
bool IsLimited(const ir::CallNode* call) {
  static const std::set<std::string_view> kLimited = {"sqrt",   "rsqrt",  "log",    "log2",
                                                      "log10",  "log1p",  "pow",    "__log",
                                                      "__log2", "__sqrt", "__rsqrt"};
  return IsOneOf(call, kLimited);
}

// The memory and names of a launch that depend on errors, and sums that are never negative.
class Errors {
 public:
  Errors(const Stmt& body, const std::function<bool(const Expr&)>& has_error)
      : has_error_(has_error) {
    ir::WalkStmts(body, [&](const Stmt& s) {
      if (const auto* bind = s.as<ir::BindNode>()) names_[bind->var.get()] = bind->value;
      return true;
    });
    size_t before;
    do {
      before = inexact_.size();
      ir::WalkStmts(body, [&](const Stmt& s) { return Spread(s); });
    } while (inexact_.size() != before);
    CollectSums(body);
  }

  bool IsInexact(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      auto name = names_.find(part.get());
      return has_error_(part) || (load != nullptr && inexact_.count(load->buffer.get()) != 0) ||
             (name != names_.end() && IsInexact(name->second));
    });
  }

  bool IsNonNegative(const Expr& e) const {
    if (auto name = names_.find(e.get()); name != names_.end()) return IsNonNegative(name->second);
    if (const auto* number = e.as<ir::FloatImmNode>()) return number->value >= 0;
    if (const auto* cast = e.as<ir::CastNode>()) return IsNonNegative(cast->value);
    if (const auto* load = e.as<ir::LoadNode>()) return sums_.count(load->buffer.get()) != 0;
    if (const auto* call = e.as<ir::CallNode>()) {
      static const std::set<std::string_view> kNonNegative = {
          "exp", "exp2", "exp10", "__exp", "__exp2", "abs", "fabs", "sqrt", "rsqrt", "sigmoid"};
      return IsOneOf(call, kNonNegative);
    }
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    bool product = op->Op() == ir::BinaryOp::kMul || op->Op() == ir::BinaryOp::kDiv;
    if (product && arith::SameStructure(op->a, op->b)) return true;
    bool keeps = product || op->Op() == ir::BinaryOp::kAdd || op->Op() == ir::BinaryOp::kMax;
    return keeps && IsNonNegative(op->a) && IsNonNegative(op->b);
  }

 private:
  // Marks what a statement writes if it depends on errors; returns whether to go on inside of it.
  bool Spread(const Stmt& s) {
    if (s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kFor) return true;
    std::vector<ir::Effect> effects = ir::EffectsOf(s);
    bool errs = ir::HasExpr(s, [&](const Expr& e) { return IsInexact(e); }) ||
                std::any_of(effects.begin(), effects.end(), [&](const ir::Effect& effect) {
                  return effect.Reads() && inexact_.count(effect.buffer.get()) != 0;
                });
    for (const ir::Effect& effect : effects) {
      if (errs && effect.Writes()) inexact_.insert(effect.buffer.get());
    }
    return false;
  }

  // Finds the fragments that only sums over numbers from 0 on write, which the statement before
  // has stored.
  void CollectSums(const Stmt& body) {
    std::unordered_map<const ir::ffi::Object*, int> sums;
    ir::WalkStmts(body, [&](const Stmt& s) {
      const auto* seq = s.as<ir::SeqNode>();
      for (size_t i = 1; seq != nullptr && i < seq->stmts.size(); ++i) {
        const auto* reduce = seq->stmts[i].as<ir::ReduceNode>();
        bool adds = reduce != nullptr && reduce->clear && reduce->op == "sum";
        if (adds && StoresNonNegative(seq->stmts[i - 1], reduce->src->buffer)) {
          ++sums[reduce->dst->buffer.get()];
        }
      }
      return true;
    });
    std::unordered_map<const ir::ffi::Object*, int> writes;
    ir::WalkEffects(body, [&](const ir::Effect& effect) {
      writes[effect.buffer.get()] += effect.Writes() ? 1 : 0;
    });
    for (const auto& [buffer, count] : sums) {
      if (writes.at(buffer) == count) sums_.insert(buffer);
    }
  }
  bool StoresNonNegative(const Stmt& s, const ir::Buffer& tile) const {
    const auto* loop = s.as<ir::ParallelForNode>();
    if (loop == nullptr) return false;
    auto extents = ir::AsInts(loop->extents), shape = ir::AsInts(tile->shape);
    if (!extents || !shape || layout::Product(*extents) != layout::Product(*shape)) return false;
    bool stores = false, positive = true;
    ir::WalkStmts(loop->body, [&](const Stmt& inner) {
      const auto* store = inner.as<ir::StoreNode>();
      if (store == nullptr || !store->buffer.same_as(tile)) return true;
      stores = true;
      positive &= IsNonNegative(store->value);
      return true;
    });
    return stores && positive;
  }

  const std::function<bool(const Expr&)>& has_error_;
  std::unordered_map<const ir::ffi::Object*, Expr> names_;
  std::unordered_set<const ir::ffi::Object*> inexact_;
  std::unordered_set<const ir::ffi::Object*> sums_;
};

}  // namespace

bool HasErrorAtLimit(const Stmt& body, const std::function<bool(const Expr&)>& has_error) {
  Errors errors(body, has_error);
  return ir::HasExpr(body, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr || !IsLimited(call)) return false;
    const Expr& x = call->args[0];
    return errors.IsInexact(x) && !errors.IsNonNegative(x);
  });
}

}  // namespace tilelang::lower
