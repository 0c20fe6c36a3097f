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

bool IsExponential(const ir::CallNode* call) {
  return IsOneOf(call, {"exp", "exp2", "exp10", "__exp", "__exp2", "sigmoid"});
}

// Returns whether a function is defined from 0 on only, or infinite or infinitely steep there.
bool IsLimited(const ir::CallNode* call) {
  static const std::set<std::string_view> kLimited = {"sqrt",  "rsqrt",  "cbrt",   "log",
                                                      "log2",  "log10",  "pow",    "log1p",
                                                      "__log", "__log2", "__sqrt", "__rsqrt"};
  return IsOneOf(call, kLimited);
}

// Returns the divisor of a quotient; null for other expressions.
Expr DivisorOf(const Expr& e) {
  const auto* op = e.as<ir::BinaryNode>();
  if (op != nullptr && op->Op() == ir::BinaryOp::kDiv) return op->b;
  const auto* call = e.as<ir::CallNode>();
  if (call == nullptr || !IsOneOf(call, {"__rcp", "__fdividef"})) return Expr();
  return call->args.back();
}

// Walks statements in their order, and knows which memory depends on errors so far, which fragments
// hold sums that are never negative, and which hold differences with errors.
class Errors {
 public:
  Errors(const Stmt& body, const std::function<bool(const Expr&)>& has_error)
      : has_error_(has_error) {
    ir::WalkStmts(body, [&](const Stmt& s) {
      if (const auto* bind = s.as<ir::BindNode>()) names_[bind->var.get()] = bind->value;
      return true;
    });
  }

  // Returns whether a function of the statement or one in it gets an error near its limit.
  bool ReachLimit(const Stmt& s) {
    if (const auto* seq = s.as<ir::SeqNode>()) {
      bool reach = false;
      for (size_t i = 0; i < seq->stmts.size() && !reach; ++i) {
        reach = ReachLimit(seq->stmts[i]);
        if (i > 0) NoteSum(seq->stmts[i - 1], seq->stmts[i].as<ir::ReduceNode>());
      }
      return reach;
    }
    auto known = [&] { return inexact_.size() + differences_.size(); };
    for (size_t before = known() + 1; before != known();) {
      before = known();
      ir::WalkStmts(s, [&](const Stmt& inner) { return Spread(inner); });
    }
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      if (effect.Writes()) sums_.erase(effect.buffer.get());
    });
    if (const auto* loop = s.as<ir::ForNode>()) return ReachLimit(loop->body);
    return ir::HasExpr(s, [&](const Expr& e) { return ReachesLimit(e); });
  }

 private:
  bool ReachesLimit(const Expr& e) const {
    if (Expr divisor = DivisorOf(e); divisor.defined()) return IsDifference(divisor);
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr || !IsLimited(call)) return false;
    const Expr& x = call->args[0];
    // A negative number has powers of whole exponents only.
    if (call->name == "pow" && IsInexact(call->args[1]) && !IsNonNegative(x, true)) return true;
    return IsInexact(x) && !IsNonNegative(x, !IsOneOf(call, {"sqrt", "cbrt"}));
  }

  // Returns whether `e` is the difference of numbers with errors, which may be 0 without them.
  bool IsDifference(const Expr& e) const {
    if (auto name = names_.find(e.get()); name != names_.end()) return IsDifference(name->second);
    if (const auto* cast = e.as<ir::CastNode>()) return IsDifference(cast->value);
    if (const auto* unary = e.as<ir::UnaryNode>()) return IsDifference(unary->a);
    if (const auto* load = e.as<ir::LoadNode>()) return differences_.count(load->buffer.get()) != 0;
    const auto* call = e.as<ir::CallNode>();
    if (call != nullptr && call->name == "fma") return IsInexact(e);
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    bool subtracts = op->Op() == ir::BinaryOp::kSub || IsNegative(op->a) || IsNegative(op->b);
    bool sum = op->Op() == ir::BinaryOp::kSub || op->Op() == ir::BinaryOp::kAdd;
    return sum && subtracts ? IsInexact(e) : IsDifference(op->a) || IsDifference(op->b);
  }
  static bool IsNegative(const Expr& e) {
    const auto* number = e.as<ir::FloatImmNode>();
    const auto* unary = e.as<ir::UnaryNode>();
    return (number != nullptr && number->value < 0) ||
           (unary != nullptr && unary->Op() == ir::UnaryOp::kNeg);
  }

  bool IsInexact(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      auto name = names_.find(part.get());
      return has_error_(part) || (load != nullptr && inexact_.count(load->buffer.get()) != 0) ||
             (name != names_.end() && IsInexact(name->second));
    });
  }

  // Returns whether `e` is never negative. `positive`: nor next to 0, as exponentials, squares and
  // magnitudes may be.
  bool IsNonNegative(const Expr& e, bool positive) const {
    if (auto name = names_.find(e.get()); name != names_.end()) {
      return IsNonNegative(name->second, positive);
    }
    if (const auto* number = e.as<ir::FloatImmNode>()) {
      return positive ? number->value > 0 : number->value >= 0;
    }
    if (const auto* cast = e.as<ir::CastNode>()) return IsNonNegative(cast->value, positive);
    if (const auto* load = e.as<ir::LoadNode>()) {
      auto sum = sums_.find(load->buffer.get());
      return sum != sums_.end() && (sum->second || !positive);
    }
    if (const auto* call = e.as<ir::CallNode>()) {
      return !positive && (IsExponential(call) || IsOneOf(call, {"abs", "fabs", "sqrt"}));
    }
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    bool product = op->Op() == ir::BinaryOp::kMul || op->Op() == ir::BinaryOp::kDiv;
    if (product && !positive && arith::SameStructure(op->a, op->b)) return true;
    if (product) return IsNonNegative(op->a, positive) && IsNonNegative(op->b, positive);
    bool keeps = op->Op() == ir::BinaryOp::kAdd || op->Op() == ir::BinaryOp::kMax;
    return keeps && IsNonNegative(op->a, false) && IsNonNegative(op->b, false) &&
           (!positive || IsNonNegative(op->a, true) || IsNonNegative(op->b, true));
  }

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
    ir::WalkStmts(s, [&](const Stmt& inner) {
      const auto* store = inner.as<ir::StoreNode>();
      bool differs = store != nullptr && IsDifference(store->value);
      if (differs) differences_.insert(store->buffer.get());
      return true;
    });
    return false;
  }

  // Notes the sum of numbers from 0 on, which the statement before stores. A sum of exponentials is
  // not next to 0.
  void NoteSum(const Stmt& before, const ir::ReduceNode* reduce) {
    bool adds = reduce != nullptr && reduce->clear && reduce->op == "sum";
    Expr value = adds ? StoredBy(before, reduce->src->buffer) : Expr();
    if (!value.defined() || !IsNonNegative(value, false)) return;
    const auto* call = value.as<ir::CallNode>();
    bool positive = (call != nullptr && IsExponential(call)) || IsNonNegative(value, true);
    sums_[reduce->dst->buffer.get()] = positive;
  }
  // Returns the value that a parallel loop stores to all elements of a tile; null for other
  // statements.
  static Expr StoredBy(const Stmt& s, const ir::Buffer& tile) {
    const auto* loop = s.as<ir::ParallelForNode>();
    if (loop == nullptr) return Expr();
    auto extents = ir::AsInts(loop->extents), shape = ir::AsInts(tile->shape);
    if (!extents || !shape || layout::Product(*extents) != layout::Product(*shape)) return Expr();
    const auto* seq = loop->body.as<ir::SeqNode>();
    const auto* store = (seq != nullptr ? seq->stmts.back() : loop->body).as<ir::StoreNode>();
    int writes = 0;
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      writes += effect.Writes() && effect.buffer.same_as(tile) ? 1 : 0;
    });
    bool only = store != nullptr && store->buffer.same_as(tile) && writes == 1;
    return only ? store->value : Expr();
  }

  const std::function<bool(const Expr&)>& has_error_;
  std::unordered_map<const ir::ffi::Object*, Expr> names_;
  std::unordered_set<const ir::ffi::Object*> inexact_;
  std::unordered_set<const ir::ffi::Object*> differences_;
  std::unordered_map<const ir::ffi::Object*, bool> sums_;  // whether they are not next to 0
};

}  // namespace

bool HasErrorAtLimit(const Stmt& body, const std::function<bool(const Expr&)>& has_error) {
  return Errors(body, has_error).ReachLimit(body);
}

}  // namespace tilelang::lower
