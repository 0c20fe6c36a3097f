#include "arith/structural.h"

#include <bit>
#include <string>

#include "arith/mix_hash.h"
#include "arith/node.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::arith {

using ir::Expr;
using ir::ExprKind;

namespace {

// Shared subexpressions are visited once for each path to them: past this many nodes two
// expressions count as different, past this depth they hash alike.
constexpr int kMaxCompared = 20000;
constexpr int kMaxHashDepth = 12;

bool Same(const Expr& a, const Expr& b, int* budget);

bool SameAll(const ir::Array<Expr>& a, const ir::Array<Expr>& b, int* budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i], budget)) return false;
  }
  return true;
}

size_t HashTo(const Expr& e, int depth);

size_t HashAll(size_t h, const ir::Array<Expr>& exprs, int depth) {
  for (const Expr& e : exprs) h = Mix(h, HashTo(e, depth));
  return h;
}

size_t HashString(const ir::String& s) {
  return std::hash<std::string_view>()(std::string_view(s.data(), s.size()));
}

size_t HashPointer(const void* p) { return std::hash<const void*>()(p); }

bool Same(const Expr& a, const Expr& b, int* budget) {
  if (a.same_as(b)) return true;
  if (a->kind != b->kind || a.dtype() != b.dtype() || --*budget < 0) return false;
  switch (a->kind) {
    case ExprKind::kIntImm:
      return As<ir::IntImmNode>(a)->value == As<ir::IntImmNode>(b)->value;
    case ExprKind::kFloatImm:
      return std::bit_cast<int64_t>(As<ir::FloatImmNode>(a)->value) ==
             std::bit_cast<int64_t>(As<ir::FloatImmNode>(b)->value);
    case ExprKind::kStringImm:
      return As<ir::StringImmNode>(a)->value == As<ir::StringImmNode>(b)->value;
    case ExprKind::kVar:
      return false;
    case ExprKind::kBinary: {
      const auto *x = As<ir::BinaryNode>(a), *y = As<ir::BinaryNode>(b);
      return x->op == y->op && Same(x->a, y->a, budget) && Same(x->b, y->b, budget);
    }
    case ExprKind::kUnary: {
      const auto *x = As<ir::UnaryNode>(a), *y = As<ir::UnaryNode>(b);
      return x->op == y->op && Same(x->a, y->a, budget);
    }
    case ExprKind::kSelect: {
      const auto *x = As<ir::SelectNode>(a), *y = As<ir::SelectNode>(b);
      return Same(x->condition, y->condition, budget) &&
             Same(x->true_value, y->true_value, budget) &&
             Same(x->false_value, y->false_value, budget);
    }
    case ExprKind::kCast:
      return Same(As<ir::CastNode>(a)->value, As<ir::CastNode>(b)->value, budget);
    case ExprKind::kLoad: {
      const auto *x = As<ir::LoadNode>(a), *y = As<ir::LoadNode>(b);
      return x->buffer.same_as(y->buffer) && SameAll(x->indices, y->indices, budget);
    }
    case ExprKind::kCall: {
      const auto *x = As<ir::CallNode>(a), *y = As<ir::CallNode>(b);
      return IsPureCall(x) && x->name == y->name && SameAll(x->args, y->args, budget);
    }
  }
  return false;
}

size_t HashTo(const Expr& e, int depth) {
  size_t h = Mix(static_cast<size_t>(e->kind), e.dtype().bits * 16 + e.dtype().code);
  if (depth-- == 0) return h;
  switch (e->kind) {
    case ExprKind::kIntImm:
      return Mix(h, static_cast<size_t>(As<ir::IntImmNode>(e)->value));
    case ExprKind::kFloatImm:
      return Mix(h, std::bit_cast<size_t>(As<ir::FloatImmNode>(e)->value));
    case ExprKind::kStringImm:
      return Mix(h, HashString(As<ir::StringImmNode>(e)->value));
    case ExprKind::kVar:
      return Mix(h, HashPointer(e.get()));
    case ExprKind::kBinary: {
      const auto* x = As<ir::BinaryNode>(e);
      return Mix(Mix(Mix(h, x->op), HashTo(x->a, depth)), HashTo(x->b, depth));
    }
    case ExprKind::kUnary:
      return Mix(Mix(h, As<ir::UnaryNode>(e)->op), HashTo(As<ir::UnaryNode>(e)->a, depth));
    case ExprKind::kSelect: {
      const auto* x = As<ir::SelectNode>(e);
      h = Mix(h, HashTo(x->condition, depth));
      return Mix(Mix(h, HashTo(x->true_value, depth)), HashTo(x->false_value, depth));
    }
    case ExprKind::kCast:
      return Mix(h, HashTo(As<ir::CastNode>(e)->value, depth));
    case ExprKind::kLoad:
      return HashAll(Mix(h, HashPointer(As<ir::LoadNode>(e)->buffer.get())),
                     As<ir::LoadNode>(e)->indices, depth);
    case ExprKind::kCall:
      return HashAll(Mix(h, HashString(As<ir::CallNode>(e)->name)), As<ir::CallNode>(e)->args,
                     depth);
  }
  return h;
}

}  // namespace

bool SameStructure(const Expr& a, const Expr& b) {
  int budget = kMaxCompared;
  return Same(a, b, &budget);
}

size_t StructuralHash(const Expr& e) { return HashTo(e, kMaxHashDepth); }

bool IsPureCall(const ir::CallNode* call) {
  return call->intrinsic != nullptr && call->intrinsic->pure;
}

bool IsPure(const Expr& e) {
  bool pure = true;
  ir::WalkExprs(e, [&](const Expr& x) {
    pure = pure && (x->kind != ExprKind::kCall || IsPureCall(As<ir::CallNode>(x)));
    return pure;
  });
  return pure;
}

}  // namespace tilelang::arith
