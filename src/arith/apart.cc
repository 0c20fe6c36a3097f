#include "arith/apart.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <vector>

#include "arith/host_eval.h"
#include "ir/arithmetic.h"
#include "ir/visitor.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;
using ir::Var;

namespace {

using Wide = unsigned __int128;

// 2^w of a type.
Wide Modulus(ir::DType type) { return Wide{1} << type.bits; }

bool IsInteger(const Expr& e) { return ir::IsIntegral(e.dtype()) && e.dtype().bits > 1; }

// The factor a of e = a var + b modulo 2^w, where b has no var.
std::optional<uint64_t> FactorOf(const Expr& e, const Var& var);

std::optional<uint64_t> FactorOfBinary(const ir::BinaryNode* op, const Var& var) {
  auto a = FactorOf(op->a, var);
  auto b = FactorOf(op->b, var);
  if (!a || !b) return std::nullopt;
  switch (op->Op()) {
    case BinaryOp::kAdd:
      return *a + *b;
    case BinaryOp::kSub:
      return *a - *b;
    case BinaryOp::kMul:
      if (auto factor = ir::AsInt(op->a)) return *b * static_cast<uint64_t>(*factor);
      if (auto factor = ir::AsInt(op->b)) return *a * static_cast<uint64_t>(*factor);
      return std::nullopt;
    case BinaryOp::kShl: {
      auto count = ir::AsInt(op->b);
      if (!count || *count < 0 || *count >= op->dtype.bits) return std::nullopt;
      return *a << *count;
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> FactorOf(const Expr& e, const Var& var) {
  if (!IsInteger(e)) return std::nullopt;
  if (e.same_as(var)) return 1;
  if (!ir::UsesVar(e, var)) return 0;
  if (const auto* op = e.as<ir::BinaryNode>()) return FactorOfBinary(op, var);
  if (const auto* op = e.as<ir::UnaryNode>()) {
    auto a = FactorOf(op->a, var);
    bool negates = op->op == static_cast<int64_t>(ir::UnaryOp::kNeg) ||
                   op->op == static_cast<int64_t>(ir::UnaryOp::kBitNot);
    return a && negates ? std::optional<uint64_t>(-*a) : std::nullopt;
  }
  const auto* cast = e.as<ir::CastNode>();
  if (cast == nullptr || !IsInteger(cast->value)) return std::nullopt;
  // A value that has wrapped is no linear function in a wider type.
  bool keeps = e.dtype().bits <= cast->value.dtype().bits || cast->value.same_as(var);
  return keeps ? FactorOf(cast->value, var) : std::nullopt;
}

bool LinearIsApart(uint64_t factor, ir::DType type, int64_t extent, int64_t distance) {
  Wide modulus = Modulus(type);
  Wide a = factor & (modulus - 1);
  if (a == 0) return false;
  auto most = static_cast<Wide>(extent - 1);  // between two turns
  Wide step = Wide{1} << std::countr_zero(static_cast<uint64_t>(a));
  auto least = static_cast<Wide>(distance);
  if (step >= least && most < modulus / step) return true;
  Wide size = std::min(a, modulus - a);
  return size >= least && size * most + least <= modulus;
}

// Has a value in each turn that depends on nothing else.
bool IsFunctionOf(const Expr& e, const Var& var) {
  bool known = ir::IsIntegral(e.dtype());
  ir::WalkExprs(e, [&](const Expr& inner) {
    const auto* op = inner.as<ir::BinaryNode>();
    bool divides =
        op != nullptr && (op->Op() == BinaryOp::kFloorDiv || op->Op() == BinaryOp::kFloorMod ||
                          op->Op() == BinaryOp::kShl || op->Op() == BinaryOp::kShr);
    bool leaf = inner.same_as(var) || inner->kind == ir::ExprKind::kIntImm;
    known = known && ir::IsIntegral(inner.dtype()) &&
            (leaf || op != nullptr || inner->kind == ir::ExprKind::kUnary ||
             inner->kind == ir::ExprKind::kCast || inner->kind == ir::ExprKind::kSelect);
    known = known && !(divides && ir::AsInt(op->b).value_or(0) <= 0);
    return known;
  });
  return known;
}

// Returns the expression without the terms that are equal in all turns.
Expr VaryingPart(const Expr& e, const Var& var) {
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr || (op->Op() != BinaryOp::kAdd && op->Op() != BinaryOp::kSub)) return e;
  if (!ir::UsesVar(op->b, var)) return VaryingPart(op->a, var);
  if (!ir::UsesVar(op->a, var)) return VaryingPart(op->b, var);
  return e;
}

// Returns whether the index is apart in all pairs of turns, found by trying them.
bool AreTried(const Expr& index, const Turns& turns, int64_t distance) {
  constexpr int64_t kMostTurns = 256;
  Expr varying = VaryingPart(index, turns.var);
  if (turns.extent > kMostTurns || !IsFunctionOf(varying, turns.var)) return false;
  HostProgram program({varying}, {turns.var});
  Wide mask = Modulus(index.dtype()) - 1;
  std::vector<Wide> values;
  for (int64_t i = 0; i < turns.extent; ++i) {
    int64_t turn = turns.min + i;
    int64_t value = 0;
    program.Run(&turn, &value);
    values.push_back(static_cast<uint64_t>(value) & mask);
  }
  std::sort(values.begin(), values.end());
  values.push_back(values[0] + mask + 1);
  auto least = static_cast<Wide>(distance);
  return std::adjacent_find(values.begin(), values.end(),
                            [&](Wide a, Wide b) { return b - a < least; }) == values.end();
}

}  // namespace

bool AreApart(const Expr& index, const Turns& turns, int64_t distance) {
  if (turns.extent <= 1) return true;
  // Values read from memory may differ from turn to turn.
  if (!IsInteger(index) || !IsInteger(turns.var) || !ir::IsArithmetic(index)) return false;
  auto factor = FactorOf(index, turns.var);
  if (factor && LinearIsApart(*factor, index.dtype(), turns.extent, distance)) return true;
  return AreTried(index, turns, distance);
}

namespace {

constexpr int64_t kMostTries = 256;

// The least number of turns after which the expression has the same values again, where its form
// shows that; 0 elsewhere.
int64_t PeriodOf(const Expr& e, const Var& var) {
  int64_t period = 1;
  ir::WalkExprs(e, [&](const Expr& part) {
    if (part.same_as(var)) period = 0;
    const auto* op = part.as<ir::BinaryNode>();
    if (op == nullptr || period == 0) return period != 0;
    int64_t bound = ir::AsInt(op->b).value_or(0);
    bool masks = op->Op() == BinaryOp::kBitAnd && (bound & (bound + 1)) == 0;
    bool wraps = masks || op->Op() == BinaryOp::kFloorMod;
    // Narrower types may wrap around before their values repeat.
    bool wide = op->dtype.bits >= 32 && var.dtype().bits >= 32;
    if (!wraps || !wide || bound <= 0 || !FactorOf(op->a, var)) return true;
    period = std::lcm(period, masks ? bound + 1 : bound);
    return false;
  });
  return period > kMostTries ? 0 : period;
}

}  // namespace

bool MayMeet(const MovingRange& earlier, const MovingRange& later, const Turns& turns,
             int64_t distance, int64_t most) {
  const Var& var = turns.var;
  bool known = IsFunctionOf(earlier.first, var) && IsFunctionOf(later.first, var);
  if (!known) return true;
  int64_t of_earlier = PeriodOf(earlier.first, var);
  int64_t of_later = PeriodOf(later.first, var);
  int64_t period = of_earlier == 0 || of_later == 0 ? 0 : std::lcm(of_earlier, of_later);
  int64_t tries = period > 0 ? 2 * period : turns.extent;
  if (tries > kMostTries) return true;
  HostProgram program({earlier.first, later.first}, {var});
  std::vector<std::array<int64_t, 2>> places(static_cast<size_t>(std::max<int64_t>(tries, 0)));
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t turn = turns.min + static_cast<int64_t>(i);
    program.Run(&turn, places[i].data());
  }
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      auto apart = static_cast<int64_t>(i - j);
      bool counts = distance >= most ? apart >= distance || period > 0 : apart == distance;
      if (period > 0 && distance < most) counts = apart == distance % period;
      bool meet = places[j][0] < places[i][1] + later.elements &&
                  places[i][1] < places[j][0] + earlier.elements;
      if (counts && meet) return true;
    }
  }
  return false;
}

}  // namespace tilelang::arith
