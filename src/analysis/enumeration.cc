#include "analysis/enumeration.h"

#include <numeric>
#include <unordered_set>

#include "ir/visitor.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

bool UsesAny(const Expr& e, const std::vector<AccessContext::Range>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& range) { return UsesVar(e, range.var); });
}

bool IsPolynomial(const Expr& e, const std::vector<AccessContext::Range>& ranges) {
  if (!UsesAny(e, ranges) || e->kind == ExprKind::kVar) return true;
  if (const auto* cast = e.as<CastNode>()) return IsPolynomial(cast->value, ranges);
  const auto* op = e.as<BinaryNode>();
  if (op == nullptr) return false;
  bool fits =
      op->Op() == BinaryOp::kAdd || op->Op() == BinaryOp::kSub || op->Op() == BinaryOp::kMul;
  return fits && IsPolynomial(op->a, ranges) && IsPolynomial(op->b, ranges);
}

namespace {

// Returns after how many steps of the variable the values of the expression repeat: 1 where it does
// not matter, 0 where nothing says that they do.
int64_t Period(const Expr& e, const AccessContext::Range& range) {
  if (!UsesVar(e, range.var)) return 1;
  if (const auto* cast = e.as<CastNode>()) return Period(cast->value, range);
  const auto* op = e.as<BinaryNode>();
  if (op == nullptr) return 0;
  auto modulus = op->Op() == BinaryOp::kFloorMod ? AsInt(op->b) : std::nullopt;
  if (modulus && IsPolynomial(op->a, {range})) return *modulus;
  return std::lcm(Period(op->a, range), Period(op->b, range));
}

}  // namespace

Enumeration::Enumeration(const AccessContext& context, const std::vector<Expr>& guards,
                         const Expr& value)
    : most_points_(context.most_points),
      threads_(context.threads.rbegin(), context.threads.rend()) {
  for (const auto& range : threads_) num_threads_ *= range.extent;
  std::vector<Expr> rest = guards;
  for (const auto& range : context.loops) {
    if (!TooLarge()) AddLoop(context, range, value, &rest);
  }
  // Guards that ask for the thread alone are asked once.
  Array<Expr> of_threads;
  Array<Expr> others;
  for (const Expr& guard : rest) {
    (UsesAny(guard, context.loops) ? others : of_threads).push_back(guard);
  }
  others.push_back(value);
  Array<Var> thread_vars;
  for (const auto& range : threads_) thread_vars.push_back(range.var);
  Array<Var> vars;
  for (const Loop& loop : loops_) vars.push_back(loop.var);
  for (const Var& var : thread_vars) vars.push_back(var);
  columns_ = Threads();
  active_ = Active(arith::HostProgram(of_threads, thread_vars), &columns_);
  if (!TooLarge()) program_ = arith::HostProgram(others, vars);
}

void Enumeration::AddLoop(const AccessContext& context, const AccessContext::Range& range,
                          const Expr& value, std::vector<Expr>* guards) {
  Array<Expr> own;
  std::vector<Expr> rest;
  for (const Expr& guard : *guards) {
    bool alone = UsesVar(guard, range.var) && !UsesAny(guard, context.threads) &&
                 std::none_of(context.loops.begin(), context.loops.end(), [&](const auto& other) {
                   return !other.var.same_as(range.var) && UsesVar(guard, other.var);
                 });
    if (alone) {
      own.push_back(guard);
    } else {
      rest.push_back(guard);
    }
  }
  *guards = rest;
  int64_t period = Period(value, range);
  for (const Expr& guard : rest) period = std::lcm(period, Period(guard, range));
  if (period == 1 && own.empty()) return;
  bool repeats = period > 0 && own.empty();
  int64_t extent = repeats ? std::min(range.extent, period) : range.extent;
  Loop& loop = loops_.emplace_back(range.var);
  if (extent <= most_points_) loop.values = ValuesOf({range.var, range.min, extent}, own, period);
  iterations_ *= extent <= most_points_ ? static_cast<int64_t>(loop.values.size()) : extent;
}

std::vector<int64_t> Enumeration::ValuesOf(const AccessContext::Range& range,
                                           const Array<Expr>& guards, int64_t period) {
  Columns column(1);
  for (int64_t i = 0; i < range.extent; ++i) column[0].push_back(range.min + i);
  Columns holds;
  arith::HostProgram(guards, {range.var}).RunMany(column, column[0].size(), &holds);
  std::vector<int64_t> values;
  std::unordered_set<int64_t> known;
  for (size_t i = 0; i < column[0].size(); ++i) {
    int64_t value = column[0][i];
    if (!AllHold(holds, holds.size(), i)) continue;
    if (period == 0 || known.insert((value % period + period) % period).second)
      values.push_back(value);
  }
  return values;
}

void Enumeration::FillInputs(int64_t first, int64_t iterations, Columns* inputs) const {
  inputs->resize(loops_.size() + columns_.size());
  for (std::vector<int64_t>& column : *inputs) column.clear();
  for (int64_t i = first; i < first + iterations; ++i) {
    int64_t stride = iterations_;
    for (size_t l = 0; l < loops_.size(); ++l) {
      const std::vector<int64_t>& values = loops_[l].values;
      auto extent = static_cast<int64_t>(values.size());
      stride /= extent;
      std::vector<int64_t>& column = (*inputs)[l];
      column.insert(column.end(), active_.size(), values[static_cast<size_t>(i / stride % extent)]);
    }
    for (size_t t = 0; t < columns_.size(); ++t) {
      std::vector<int64_t>& column = (*inputs)[loops_.size() + t];
      column.insert(column.end(), columns_[t].begin(), columns_[t].end());
    }
  }
}

Enumeration::Columns Enumeration::Threads() const {
  Columns columns;
  int64_t stride = num_threads_;
  for (const auto& range : threads_) {
    stride /= range.extent;
    std::vector<int64_t>& column = columns.emplace_back();
    for (int64_t t = 0; t < num_threads_; ++t) {
      column.push_back(range.min + t / stride % range.extent);
    }
  }
  return columns;
}

std::vector<int64_t> Enumeration::Active(const arith::HostProgram& filter, Columns* threads) const {
  Columns holds;
  filter.RunMany(*threads, static_cast<size_t>(num_threads_), &holds);
  std::vector<int64_t> active;
  for (int64_t t = 0; t < num_threads_; ++t) {
    if (AllHold(holds, holds.size(), static_cast<size_t>(t))) active.push_back(t);
  }
  for (std::vector<int64_t>& column : *threads) {
    for (size_t p = 0; p < active.size(); ++p) column[p] = column[active[p]];
    column.resize(active.size());
  }
  return active;
}

bool Enumeration::AllHold(const Columns& guards, size_t count, size_t point) {
  for (size_t i = 0; i < count; ++i) {
    if (guards[i][point] == 0) return false;
  }
  return true;
}

}  // namespace tilelang::analysis
