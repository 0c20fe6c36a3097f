#include "lower/divide_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arith/analyzer.h"
#include "ir/build.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::lower {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr int64_t kChunks[] = {16, 8, 4};

// A division, and the function that computes several with the same divisor.
struct Division {
  Expr dividend;
  Expr divisor;
  const char* function = "divide_by";
};

std::optional<Division> AsDivision(const Expr& e) {
  if (e.dtype() != ir::dtypes::kFloat32) return std::nullopt;
  const auto* call = e.as<ir::CallNode>();
  if (call != nullptr && call->name == "quotient")
    return Division{call->args[0], call->args[1], "divide_by_reciprocal"};
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr || op->Op() != ir::BinaryOp::kDiv) return std::nullopt;
  return Division{op->a, op->b};
}

bool IsDivision(const Expr& e) { return AsDivision(e).has_value(); }

// Returns whether each iteration of a loop stores to another element.
bool StoresApart(const ir::StoreNode* store, const Var& loop, arith::Analyzer* analyzer) {
  return std::any_of(store->indices.begin(), store->indices.end(), [&](const Expr& index) {
    return analyzer->StrideOf(index, loop).value_or(0) != 0;
  });
}

// Returns whether an operand may be read before all stores of a loop: `apart` says that each
// iteration stores to another element. Memory is read in place, by vectors.
bool MayMove(const Expr& operand, const ir::StoreNode* target, bool apart) {
  bool moves = true;
  ir::WalkExprs(operand, [&](const Expr& e) {
    if (const auto* load = e.as<ir::LoadNode>()) {
      bool own = apart && std::equal(load->indices.begin(), load->indices.end(),
                                     target->indices.begin(), target->indices.end(),
                                     [](const Expr& a, const Expr& b) { return a.same_as(b); });
      moves &= load->buffer.IsLocal() && (own || !load->buffer.same_as(target->buffer));
    }
    const auto* call = e.as<ir::CallNode>();
    moves &= call == nullptr || (call->intrinsic != nullptr && call->intrinsic->pure);
    return moves;
  });
  return moves;
}

// Returns the value that a constant limits; undefined for other expressions.
Expr WithoutLimit(const Expr& e) {
  const auto* op = e.as<ir::BinaryNode>();
  const auto* call = e.as<ir::CallNode>();
  bool limits = op != nullptr && (op->Op() == ir::BinaryOp::kMin || op->Op() == ir::BinaryOp::kMax);
  bool calls = call != nullptr && (call->name == "min_nan" || call->name == "max_nan");
  if (!limits && !calls) return Expr();
  Expr a = limits ? op->a : call->args[0];
  Expr b = limits ? op->b : call->args[1];
  if (b->kind == ir::ExprKind::kFloatImm) return a;
  return a->kind == ir::ExprKind::kFloatImm ? b : Expr();
}

// Returns whether a value is its division, between limits, in float16 or a type of 8 bits:
// quotients below 2^-40 are zero there.
bool IsNarrow(const Expr& value) {
  const auto* cast = value.as<ir::CastNode>();
  bool narrow =
      cast != nullptr && (ir::IsFloat8(cast->dtype) || cast->dtype == ir::dtypes::kFloat16);
  Expr e = narrow ? cast->value : value;
  for (Expr inner = WithoutLimit(e); inner.defined(); inner = WithoutLimit(e)) e = inner;
  return narrow && IsDivision(e);
}

// Returns the only division of a value, apart from those in its operands, if it can be computed
// before the stores of the loop; nullopt otherwise. A division that is not always computed stays
// where it is.
std::optional<Division> DivisionOf(const ir::StoreNode* store, bool apart) {
  std::optional<Division> found;
  int count = 0;
  ir::WalkExprs(store->value, [&](const Expr& e) {
    count += e->kind == ir::ExprKind::kSelect ? 2 : 0;
    if (!IsDivision(e)) return true;
    found = AsDivision(e);
    ++count;
    return false;
  });
  if (count != 1 || !found) return std::nullopt;
  bool moves = MayMove(found->dividend, store, apart) && MayMove(found->divisor, store, apart);
  if (!moves) return std::nullopt;
  bool reads_target = false;
  ir::WalkExprs(found->divisor, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    reads_target |= load != nullptr && load->buffer.same_as(store->buffer);
    return true;
  });
  // The quotient by a power of two is a product.
  const auto* number = found->divisor.as<ir::FloatImmNode>();
  int exponent = 0;
  bool power = number != nullptr && std::abs(std::frexp(number->value, &exponent)) == 0.5;
  if (reads_target || power) return std::nullopt;
  bool exact = found->function == std::string_view("divide_by");
  if (exact && IsNarrow(store->value)) found->function = "divide_narrowly";
  return found;
}

// Puts a load in place of the division of the stored value.
class QuotientPlacer : public ir::StmtMutator {
 public:
  explicit QuotientPlacer(Expr by) : by_(std::move(by)) {}
  using StmtMutator::Mutate;
  Expr Mutate(const Expr& e) override { return IsDivision(e) ? by_ : StmtMutator::Mutate(e); }

 private:
  Expr by_;
};

// Returns the only store of a loop's body that has only names and conditions beside it; null for
// other bodies.
const ir::StoreNode* OnlyStore(const Stmt& body) {
  const ir::StoreNode* found = nullptr;
  int others = 0;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* branch = s.as<ir::IfNode>();
    const auto* store = s.as<ir::StoreNode>();
    const bool plain = s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kBind ||
                       (branch != nullptr && !branch->else_case.defined());
    others += (store != nullptr && found == nullptr) || plain ? 0 : 1;
    if (store != nullptr) found = store;
    return true;
  });
  return others == 0 ? found : nullptr;
}

// Returns whether a division stands where a store does not: in a name or a condition.
bool DividesElsewhere(const Stmt& body, const ir::StoreNode* store) {
  int all = 0, own = 0;
  ir::WalkExprs(body, [&](const Expr& e) {
    all += IsDivision(e) ? 1 : 0;
    return true;
  });
  ir::WalkExprs(store->value, [&](const Expr& e) {
    own += IsDivision(e) ? 1 : 0;
    return true;
  });
  return all != own;
}

// Returns whether a value needs a name of the body.
bool UsesName(const Expr& value, const Stmt& body) {
  bool uses = false;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* bind = s.as<ir::BindNode>();
    uses |= bind != nullptr && ir::UsesVar(value, bind->var);
    return true;
  });
  return uses;
}

class Divider : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt self = StmtMutator::Rewrite(op);
    const auto* loop = self.as<ir::ForNode>();
    const ir::StoreNode* store = OnlyStore(loop->body);
    auto extent = ir::AsInt(loop->extent);
    bool vector = loop->Kind() == ir::ForKind::kVectorized;
    bool fits = (vector || loop->Kind() == ir::ForKind::kUnrolled) && store != nullptr &&
                extent.has_value() && ir::IsConst(loop->min, 0);
    std::optional<Division> division =
        fits ? DivisionOf(store, StoresApart(store, loop->var, &analyzer_)) : std::nullopt;
    if (!division || DividesElsewhere(loop->body, store)) return self;
    bool named =
        UsesName(division->dividend, loop->body) || UsesName(division->divisor, loop->body);
    if (named) return self;
    for (int64_t count : kChunks) {
      if (vector ? *extent != count : *extent % count != 0) continue;
      if (Stmt result = InChunks(loop, store, *division, count); result.defined()) return result;
    }
    return self;
  }

 private:
  // Divides `count` elements at a time; undefined if they have several divisors.
  Stmt InChunks(const ir::ForNode* loop, const ir::StoreNode* store, const Division& division,
                int64_t count) {
    const ir::DType type = loop->var.dtype();
    auto constant = [&](int64_t n) { return ir::Const(type, n); };
    std::string name(loop->var->name);
    Var chunk(name + "_chunk", type, loop->span);
    Var lane(name + "_lane", type, loop->span);
    Expr at = chunk * constant(count) + lane;
    arith::Analyzer::Scope scope(&analyzer_);
    analyzer_.Bind(chunk, constant(0), constant(*ir::AsInt(loop->extent) / count));
    analyzer_.Bind(lane, constant(0), constant(count));
    Expr divisor = analyzer_.Simplify(ir::Substitute(division.divisor, {{loop->var, at}}));
    if (ir::UsesVar(divisor, lane)) return Stmt();
    Buffer quotients("quotients", ir::dtypes::kFloat32, {constant(count)}, {}, "local", {},
                     store->span);
    auto each = [&](const Var& var, const Stmt& body) {
      return ir::For(var, constant(0), constant(count), ir::ForKind::kUnrolled, body, {},
                     loop->span);
    };
    Expr dividend = ir::Substitute(division.dividend, {{loop->var, at}});
    bool guarded =
        ir::HasStmt(loop->body, [](const Stmt& inner) { return inner->kind == ir::StmtKind::kIf; });
    if (guarded && !IsInside(dividend)) return Stmt();
    Var first(name + "_first", type, loop->span);
    Stmt gather =
        ir::Store(quotients, {first}, ir::Substitute(dividend, {{lane, first}}), store->span);
    Expr address = ir::AddressOf(quotients, {constant(0)});
    Stmt divide = ir::Evaluate(
        ir::Call(ir::dtypes::kVoid, std::string(division.function) + std::to_string(count),
                 {address, divisor}, {}, store->span),
        store->span);
    std::vector<Stmt> stmts = {ir::Alloc(quotients, store->span), each(first, gather), divide};
    bool vector = loop->Kind() == ir::ForKind::kVectorized;
    Expr quotient = ir::Load(quotients, {vector ? loop->var : lane});
    Stmt scatter = QuotientPlacer(quotient).MutateStmt(loop->body);
    if (vector) {
      stmts.push_back(ir::For(loop->var, loop->min, loop->extent, loop->Kind(), scatter,
                              loop->annotations, loop->span));
      return ir::Substitute(ir::MakeSeq(stmts, loop->span), {{chunk, constant(0)}});
    }
    stmts.push_back(each(lane, ir::Substitute(scatter, {{loop->var, at}})));
    return ir::For(chunk, constant(0), constant(*ir::AsInt(loop->extent) / count),
                   ir::ForKind::kUnrolled, ir::MakeSeq(stmts, loop->span), loop->annotations,
                   loop->span);
  }

  // Returns whether an operand reads elements of its buffers in all iterations, also in those in
  // which a condition excludes the store.
  bool IsInside(const Expr& operand) {
    bool inside = true;
    ir::WalkExprs(operand, [&](const Expr& e) {
      const auto* load = e.as<ir::LoadNode>();
      if (load == nullptr) return true;
      for (size_t d = 0; d < load->indices.size(); ++d) {
        inside &= analyzer_.CanProveNonNegative(load->indices[d]) &&
                  analyzer_.CanProveLess(load->indices[d], load->buffer->shape[d]);
      }
      return true;
    });
    return inside;
  }

  arith::Analyzer analyzer_;
};

}  // namespace

ir::Func DivideRows(const ir::Func& func) {
  return func.WithBody(Divider().MutateStmt(func->body));
}

}  // namespace tilelang::lower
