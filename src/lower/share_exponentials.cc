#include "lower/share_exponentials.h"

#include <numbers>
#include <utility>

#include "ir/build.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "layout/tcgen05_layout.h"
#include "schedule/channel.h"

namespace tilelang::lower {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kMufuRate = 16;      // exponentials of an SM a cycle
constexpr int64_t kTensorRate = 4096;  // products of 16-bit operands
constexpr int64_t kPeriod = 8;         // pairs of columns, of which some are polynomials
constexpr int64_t kPolynomials = 2;
constexpr int kOperandBits = 16;

// Returns the operations of MUFU that a function takes; 0 for other expressions. A hyperbolic
// tangent takes an exponential and a reciprocal.
int OperationsOf(const Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  if (call == nullptr || call->dtype != ir::dtypes::kFloat32) return 0;
  if (call->name == "tanh") return 2;
  return call->name == "exp2" || call->name == "exp" ? 1 : 0;
}

// Returns `e` times log2(e) if this takes no operation more: in sums, differences and products, of
// which each term has a constant. Undefined for others.
Expr Folded(const Expr& e) {
  if (const auto* number = e.as<ir::FloatImmNode>()) {
    return ir::FloatImm(number->dtype, number->value * std::numbers::log2e, number->span);
  }
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr) return Expr();
  bool sum = op->Op() == ir::BinaryOp::kAdd || op->Op() == ir::BinaryOp::kSub;
  if (!sum && op->Op() != ir::BinaryOp::kMul) return Expr();
  Expr a = Folded(op->a);
  if (!sum && a.defined()) return ir::MakeBinary(op->Op(), a, op->b, op->span);
  Expr b = Folded(op->b);
  if (!b.defined() || (sum && !a.defined())) return Expr();
  return ir::MakeBinary(op->Op(), sum ? a : op->a, b, op->span);
}

// Returns the power of 2 that an exponential is.
Expr PowerOf(const ir::CallNode* exponential) {
  const Expr& power = exponential->args[0];
  if (exponential->name == "exp2") return power;
  Expr folded = Folded(power);
  Expr log2e = ir::FloatImm(power.dtype(), std::numbers::log2e, power.span());
  return folded.defined() ? folded : ir::MakeBinary(ir::BinaryOp::kMul, power, log2e, power.span());
}

// Returns the operations of MUFU of a loop that stores one function of each element, in rows of
// whole warps; 0 for others.
int64_t OperationsOf(const ir::ParallelForNode* loop) {
  const auto* store = loop->body.as<ir::StoreNode>();
  auto extents = ir::AsInts(loop->extents);
  bool fits = store != nullptr && store->buffer.IsFragment() && extents && extents->size() == 2 &&
              (*extents)[0] % layout::kTmemLanes == 0 && (*extents)[1] % (2 * kPeriod) == 0 &&
              store->indices.size() == 2 && store->indices[1].same_as(loop->vars[1]);
  if (!fits) return 0;
  int functions = 0;
  int operations = 0;
  ir::WalkExprs(store->value, [&](const Expr& e) {
    functions += OperationsOf(e) > 0 ? 1 : 0;
    operations += OperationsOf(e);
    return true;
  });
  return functions == 1 ? operations * (*extents)[0] * (*extents)[1] : 0;
}

// The products of a gemm into tensor memory, as many of 16-bit operands as take as long.
int64_t ProductsOf(const ir::GemmNode* gemm) {
  if (!gemm->result()->buffer.IsTmem()) return 0;
  int64_t products = 1;
  for (const Expr& extent : gemm->result()->extents) products *= ir::AsInt(extent).value_or(1);
  for (const ir::GemmOperandNode* input : gemm->Inputs()) {
    auto k = input->DimAlong(ir::GemmDim::kK);
    if (!k) continue;
    return products * ir::AsInt(input->region->extents[*k]).value_or(1) *
           input->buffer()->dtype.bits / kOperandBits;
  }
  return 0;
}

class ExponentialSharer : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    if (schedule::StagesOf(op) < 1) return StmtMutator::Rewrite(op);
    int64_t operations = 0;
    int64_t products = 0;
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::ParallelForNode>()) operations += OperationsOf(loop);
      if (const auto* gemm = s.as<ir::GemmNode>()) products += ProductsOf(gemm);
      return true;
    });
    int64_t mufu = operations / kMufuRate;
    int64_t tensor = products / kTensorRate;
    if (mufu == 0 || 2 * mufu < tensor) return StmtMutator::Rewrite(op);
    int64_t outer = std::exchange(pairs_, kPolynomials);
    Remark(op->span, "exponentials",
           "T.Pipelined: " + std::to_string(pairs_) +
               " of 8 exponentials are polynomials on the FMA pipe, with the error of exp2f, and "
               "ex2.approx.ftz computes the others, which are zero below 2^-126: the unit of "
               "special functions takes at least half as long as the gemms. The pass option "
               "tl.disable_exp2_polynomials turns this off");
    Stmt result = StmtMutator::Rewrite(op);
    pairs_ = outer;
    return result;
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    if (pairs_ == 0 || OperationsOf(op) == 0) return StmtMutator::Rewrite(op);
    const ir::Var& column = op->vars[1];
    auto of = [&](int64_t value) { return ir::Const(column.dtype(), value); };
    Expr pair = ir::FloorMod(ir::FloorDiv(column, of(2)), of(kPeriod));
    Stmt body = Replacer(pair < of(pairs_)).MutateStmt(op->body);
    return ir::ParallelFor(op->vars, op->extents, body, op->annotations, op->span);
  }

 private:
  // Computes exponentials of some columns by a polynomial, and of the others by ex2.approx.ftz;
  // hyperbolic tangents by polynomials.
  class Replacer : public ir::StmtMutator {
   public:
    explicit Replacer(Expr chosen) : chosen_(std::move(chosen)) {}
    Expr Mutate(const Expr& e) override {
      if (OperationsOf(e) == 0) return StmtMutator::Mutate(e);
      const auto* call = e.as<ir::CallNode>();
      if (call->name == "tanh") {
        return ir::Call(call->dtype, "tanh_fma", call->args, {}, call->span);
      }
      Expr power = PowerOf(call);
      ir::Call polynomial(call->dtype, "exp2_fma5", {power}, {}, call->span);
      ir::Call special(call->dtype, "__exp2", {power}, {}, call->span);
      return ir::Select(chosen_, polynomial, special);
    }

   private:
    Expr chosen_;
  };

  int64_t pairs_ = 0;  // of kPeriod that are polynomials in this loop
};

}  // namespace

ir::Func ShareExponentials(const ir::Func& func, const Target& target) {
  if (!target->has_packed_f32x2 || target->tmem_columns == 0) return func;
  return func.WithBody(ExponentialSharer().MutateStmt(func->body));
}

}  // namespace tilelang::lower
