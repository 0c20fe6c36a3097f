#include "arith/analyzer.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>

#include "arith/knowledge.h"
#include "ir/launch_extent.h"
#include "ir/visitor.h"

namespace tilelang::arith {

using ir::Expr;

namespace {

// Enough for every alignment; two of them multiply without overflow.
constexpr int64_t kLargestPower = int64_t{1} << 30;

// A power of two that divides every value of e. Sums and products that may wrap around, which
// Modular knows nothing of, do so at a larger power of two.
int64_t PowerOfTwoIn(Analyzer* analyzer, const Expr& e) {
  ModularSet set = analyzer->Modular(e);
  int64_t bits = set.coeff | set.base | kLargestPower;
  int64_t found = bits & -bits;
  const auto* binary = e.as<ir::BinaryNode>();
  if (binary == nullptr || e.dtype().bits < 32) return found;
  int64_t a = PowerOfTwoIn(analyzer, binary->a), b = PowerOfTwoIn(analyzer, binary->b);
  if (binary->Op() == ir::BinaryOp::kMul) return std::max(found, std::min(a * b, kLargestPower));
  if (binary->Op() == ir::BinaryOp::kAdd || binary->Op() == ir::BinaryOp::kSub) {
    return std::max(found, std::min(a, b));
  }
  return found;
}

}  // namespace

Analyzer::Analyzer() : knowledge_(std::make_unique<Knowledge>()) {}
Analyzer::~Analyzer() = default;

void Analyzer::Bind(const ir::Var& var, const Expr& min, const Expr& extent) {
  try {
    knowledge_->BindRange(var, min, extent);
  } catch (const CoefficientOverflow&) {
    // Nothing is known of the variable then.
  }
}

void Analyzer::Bind(const ir::Var& var, const Expr& value) {
  try {
    knowledge_->BindValue(var, value);
    if (!ir::IsIntegral(var.dtype()) || ir::IsBool(var.dtype())) return;
    // BindValue learns nothing about values that may wrap around.
    int64_t power = PowerOfTwoIn(this, value);
    if (power > 1) knowledge_->BindMultiple(var, power);
  } catch (const CoefficientOverflow&) {
    // As above.
  }
}

void Analyzer::BindParams(const ir::Array<ir::Any>& params) {
  for (const ir::Any& param : params) {
    auto buffer = param.as<ir::Buffer>();
    if (!buffer) continue;
    for (const Expr& size : (*buffer)->shape) {
      if (size->kind == ir::ExprKind::kVar) Assume(size >= 0);
    }
  }
}

void Analyzer::BindLaunch(const ir::KernelLaunchNode* launch) {
  for (size_t i = 0; i < launch->block_vars.size(); ++i) {
    Bind(launch->block_vars[i], ir::Const(launch->block_vars[i].dtype(), 0),
         ir::ExtentInside(launch->grid[i]));
  }
  for (size_t i = 0; i < launch->thread_vars.size(); ++i) {
    Bind(launch->thread_vars[i], ir::Const(launch->thread_vars[i].dtype(), 0), launch->threads[i]);
  }
  auto cluster = launch->attrs.Get("cluster_dims");
  if (!cluster) return;
  int64_t blocks = 1;
  for (int64_t extent : (*cluster).cast<ir::Array<int64_t>>()) blocks *= extent;
  ir::DType t = ir::dtypes::kInt32;
  Expr rank = ir::Call(t, "block_rank_in_cluster", {});
  Assume(rank >= ir::Const(t, 0) && rank < ir::Const(t, blocks));
}

void Analyzer::Assume(const Expr& condition) { knowledge_->Assume(condition, true, false); }

Analyzer::Scope::Scope(Analyzer* analyzer) : analyzer_(analyzer) { analyzer->knowledge_->Push(); }
Analyzer::Scope::Scope(Analyzer* analyzer, const Expr& condition) : Scope(analyzer) {
  analyzer->Assume(condition);
}
Analyzer::Scope::~Scope() { analyzer_->knowledge_->Pop(); }

Interval Analyzer::ConstBounds(const Expr& e) {
  if (!ir::IsIntegral(e.dtype())) return {};
  if (ir::IsBool(e.dtype())) {
    std::optional<bool> value = knowledge_->Decide(e);
    return value ? Interval::Point(*value) : Interval{0, 1};
  }
  return Intersect(knowledge_->Bounds(knowledge_->Exact(e)), TypeRange(e.dtype()));
}

ModularSet Analyzer::Modular(const Expr& e) {
  if (!ir::IsIntegral(e.dtype())) return {};
  return knowledge_->Modular(knowledge_->Exact(e));
}

bool Analyzer::CanProve(const Expr& condition) {
  return knowledge_->Decide(condition) == std::optional(true);
}

bool Analyzer::CanProveNonNegative(const Expr& e) {
  return knowledge_->NonNegative(knowledge_->Exact(e));
}

bool Analyzer::CanProveLess(const Expr& e, const Expr& bound) {
  return knowledge_->DecideComparison(ir::BinaryOp::kLt, knowledge_->Exact(e),
                                      knowledge_->Exact(bound)) == std::optional(true);
}

bool Analyzer::CanProveEqual(const Expr& a, const Expr& b) {
  return knowledge_->DecideComparison(ir::BinaryOp::kEq, knowledge_->Exact(a),
                                      knowledge_->Exact(b)) == std::optional(true);
}

bool Analyzer::Divides(const Expr& e, int64_t n) {
  if (Modular(e).DividedBy(n)) return true;
  return std::has_single_bit(static_cast<uint64_t>(n)) && PowerOfTwoIn(this, e) % n == 0;
}

Expr Analyzer::Simplify(const Expr& e) { return knowledge_->Simplify(e); }

std::optional<Expr> Analyzer::LinearIn(const Expr& e, const ir::Var& var) {
  if (!ir::IsIntegral(e.dtype())) return std::nullopt;
  Knowledge& k = *knowledge_;
  AtomId id = k.VarAtom(var);
  Poly stride;
  try {
    for (const Poly::Term& t : k.Exact(e).terms) {
      if (!k.DependsOn(t.atom, var)) continue;
      std::optional<Poly> factor = k.DivideAtom(t.atom, id);
      if (!factor || k.DependsOn(*factor, var)) return std::nullopt;
      stride = stride + *factor * t.coeff;
    }
    return k.Build(stride, e.dtype());
  } catch (const CoefficientOverflow&) {
    return std::nullopt;
  }
}

std::optional<int64_t> Analyzer::StrideOf(const Expr& e, const ir::Var& var) {
  std::optional<Expr> stride = LinearIn(e, var);
  return stride ? ir::AsInt(*stride) : std::nullopt;
}

bool Knowledge::DependsOn(AtomId id, const ir::Var& var) const {
  const Atom& atom = atoms_[id];
  if (atom.expr.defined() && ir::UsesVar(atom.expr, var)) return true;
  for (AtomId factor : atom.factors) {
    if (DependsOn(factor, var)) return true;
  }
  return DependsOn(atom.a, var) || DependsOn(atom.b, var);
}

}  // namespace tilelang::arith
