#include "lower/share_exponentials.h"

#include <string>
#include <utility>

#include "ir/build.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "lower/powers_of_two.h"
#include "schedule/channel.h"
#include "target/rates.h"

namespace tilelang::lower {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kMufuRate = 16;  // exponentials of an SM a cycle
constexpr int64_t kPeriod = 8;     // pairs of columns, of which some are polynomials
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

// Returns the operations of MUFU of a loop that stores one function of each element of a fragment,
// whose columns are whole periods; 0 for others.
int64_t OperationsOf(const ir::ParallelForNode* loop) {
  const auto* store = loop->body.as<ir::StoreNode>();
  auto extents = ir::AsInts(loop->extents);
  bool fits = store != nullptr && store->buffer.IsFragment() && extents && extents->size() == 2 &&
              (*extents)[1] % (2 * kPeriod) == 0 && store->indices.size() == 2 &&
              store->indices[1].same_as(loop->vars[1]);
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

// The products of a gemm, as many of 16-bit operands as take as long.
int64_t ProductsOf(const ir::GemmNode* gemm) {
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
  explicit ExponentialSharer(const Target& target)
      : tensor_rate_(static_cast<int64_t>(RatesOf(target).tensor_flops / 2)),
        polynomials_(target->has_packed_f32x2 && target->tmem_columns > 0 ? kPolynomials : 0) {}

  using StmtMutator::Rewrite;
  // The statements of a launch outside of its loops are as one iteration of a loop.
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    shares_ = Shares(op->body, /*loops=*/false);
    if (shares_) RemarkShare(op->span, "T.Kernel");
    Stmt result = StmtMutator::Rewrite(op);
    shares_ = false;
    return result;
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    bool pipelined = schedule::StagesOf(op) >= 1;
    bool shares = in_loop_ ? shares_ : pipelined && Shares(op->body, /*loops=*/true);
    if (shares && !in_loop_) RemarkShare(op->span, "T.Pipelined");
    bool outer = std::exchange(shares_, shares);
    bool in_loop = std::exchange(in_loop_, in_loop_ || pipelined);
    Stmt result = StmtMutator::Rewrite(op);
    shares_ = outer;
    in_loop_ = in_loop;
    return result;
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    if (!shares_ || OperationsOf(op) == 0) return StmtMutator::Rewrite(op);
    const ir::Var& column = op->vars[1];
    auto of = [&](int64_t value) { return ir::Const(column.dtype(), value); };
    Expr pair = ir::FloorMod(ir::FloorDiv(column, of(2)), of(kPeriod));
    Expr chosen = polynomials_ > 0 ? pair < of(polynomials_) : Expr();
    Stmt body = Replacer(chosen).MutateStmt(op->body);
    return ir::ParallelFor(op->vars, op->extents, body, op->annotations, op->span);
  }

 private:
  // Returns whether MUFU takes at least half as long as the gemms of a statement, in its loops or
  // outside of them. What follows the only gemm outside of loops is an epilogue.
  bool Shares(const Stmt& body, bool loops) const {
    int64_t operations = 0;
    int64_t products = 0;
    int gemms = 0;
    ir::WalkStmts(body, [&](const Stmt& s) {
      if (const auto* loop = s.as<ir::ParallelForNode>()) operations += OperationsOf(loop);
      if (const auto* gemm = s.as<ir::GemmNode>()) products += ProductsOf(gemm);
      gemms += s->kind == ir::StmtKind::kGemm ? 1 : 0;
      return loops || s->kind != ir::StmtKind::kFor;
    });
    if (!loops && gemms < 2) return false;
    int64_t mufu = operations / kMufuRate;
    return products > 0 && mufu > 0 && 2 * mufu >= products / tensor_rate_;
  }

  void RemarkShare(const ir::Span& span, const std::string& of) const {
    std::string what =
        polynomials_ > 0 ? std::to_string(polynomials_) +
                               " of 8 exponentials are polynomials on the FMA pipe, with the error "
                               "of exp2f, and ex2.approx.ftz computes the others, which are"
                         : "ex2.approx.ftz computes exponentials, which are";
    Remark(span, "exponentials",
           of + ": " + what +
               " zero below 2^-126: the unit of special functions takes at least half as long as "
               "the gemms. The pass option tl.disable_exp2_polynomials turns this off");
  }

  // Computes exponentials of some columns by a polynomial, and of the others by ex2.approx.ftz;
  // hyperbolic tangents by polynomials. `chosen`: the columns; undefined: there are no polynomials.
  class Replacer : public ir::StmtMutator {
   public:
    explicit Replacer(Expr chosen) : chosen_(std::move(chosen)) {}
    Expr Mutate(const Expr& e) override {
      if (OperationsOf(e) == 0) return StmtMutator::Mutate(e);
      const auto* call = e.as<ir::CallNode>();
      if (call->name == "tanh") {
        if (!chosen_.defined()) return StmtMutator::Mutate(e);
        return ir::Call(call->dtype, "tanh_fma", call->args, {}, call->span);
      }
      Expr power = PowerOf(call);
      ir::Call special(call->dtype, "__exp2", {power}, {}, call->span);
      if (!chosen_.defined()) return special;
      ir::Call polynomial(call->dtype, "exp2_fma5", {power}, {}, call->span);
      return ir::Select(chosen_, polynomial, special);
    }

   private:
    Expr chosen_;
  };

  int64_t tensor_rate_;   // products of 16-bit operands
  int64_t polynomials_;   // pairs of kPeriod that are polynomials
  bool shares_ = false;   // the statements that are being rewritten
  bool in_loop_ = false;  // in a pipelined loop
};

}  // namespace

ir::Func ShareExponentials(const ir::Func& func, const Target& target) {
  return func.WithBody(ExponentialSharer(target).MutateStmt(func->body));
}

}  // namespace tilelang::lower
