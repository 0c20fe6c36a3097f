#include "lower/pair_polynomials.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/build.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::lower {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Stmt;
using ir::Var;

namespace {

bool IsPolynomial(const Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  return call != nullptr && call->dtype == ir::dtypes::kFloat32 &&
         call->Is(ir::Builtin::kPolynomial);
}

// The only polynomial of a value; null if there is none, or several. A value that reads memory, or
// an element of `target` that another iteration may write, has none.
ir::Call PolynomialOf(const ir::StoreNode* target) {
  ir::Call found;
  int count = 0;
  bool fits = true;
  ir::WalkExprs(target->value, [&](const Expr& e) {
    if (IsPolynomial(e)) {
      found = e.as<ir::Call>().value();
      ++count;
    }
    if (const auto* load = e.as<ir::LoadNode>()) {
      bool own = load->indices.size() == 1 && load->indices[0].same_as(target->indices[0]);
      fits &= load->buffer.IsLocal() && (own || !load->buffer.same_as(target->buffer));
    }
    return true;
  });
  return fits && count == 1 ? found : ir::Call();
}

class Replacer : public ir::ExprMutator {
 public:
  explicit Replacer(Expr by) : by_(std::move(by)) {}
  Expr Mutate(const Expr& e) override { return IsPolynomial(e) ? by_ : ExprMutator::Mutate(e); }

 private:
  Expr by_;
};

class Pairs : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt self = StmtMutator::Rewrite(op);
    const auto* loop = self.as<ir::ForNode>();
    const auto* store = loop->body.as<ir::StoreNode>();
    auto extent = ir::AsInt(loop->extent);
    bool even = extent.has_value() && *extent % 2 == 0 && ir::IsConst(loop->min, 0);
    if (loop->Kind() != ir::ForKind::kUnrolled || store == nullptr || !even) return self;
    if (!store->buffer.IsLocal() || store->indices.size() != 1) return self;
    ir::Call polynomial = PolynomialOf(store);
    return polynomial.defined() ? InPairs(loop, store, polynomial, *extent / 2) : self;
  }

 private:
  static Stmt InPairs(const ir::ForNode* loop, const ir::StoreNode* store,
                      const ir::Call& polynomial, int64_t count) {
    auto constant = [](int64_t n) { return ir::Const(ir::dtypes::kInt32, n); };
    Var half(std::string(loop->var->name) + "_pair", loop->var->dtype, loop->span);
    auto at = [&](const auto& node, int64_t lane) {
      Map<Var, Expr> replacement;
      replacement.Set(loop->var, half * constant(2) + constant(lane));
      return ir::Substitute(node, replacement);
    };
    Buffer powers("powers", ir::dtypes::kFloat32, {constant(2)}, {}, "local", {}, store->span);
    const Expr& power = polynomial->args[0];
    std::string name = std::string(polynomial->name) + "_pair";
    std::vector<Stmt> stmts = {
        ir::Alloc(powers, store->span),
        ir::Evaluate(ir::Call(ir::dtypes::kVoid, name,
                              {ir::AddressOf(powers, {constant(0)}), at(power, 0), at(power, 1)}),
                     store->span)};
    for (int64_t lane : {0, 1}) {
      Expr value = Replacer(ir::Load(powers, {constant(lane)})).Mutate(store->value);
      stmts.push_back(
          ir::Store(store->buffer, {at(store->indices[0], lane)}, at(value, lane), store->span));
    }
    return ir::For(half, constant(0), constant(count), ir::ForKind::kUnrolled,
                   ir::MakeSeq(stmts, loop->span), loop->annotations, loop->span);
  }
};

}  // namespace

ir::Func PairPolynomials(const ir::Func& func, const Target& target) {
  if (!target->has_packed_f32x2) return func;
  return func.WithBody(Pairs().MutateStmt(func->body));
}

}  // namespace tilelang::lower
