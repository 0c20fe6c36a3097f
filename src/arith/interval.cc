#include "arith/interval.h"

#include <algorithm>

#include "ir/fold.h"

namespace tilelang::arith {

using ir::FloorDivInt;

namespace {

bool IsInf(int64_t value) { return value == kNegInf || value == kPosInf; }

int64_t AddEnd(int64_t a, int64_t b) {
  if (IsInf(a)) return a;
  if (IsInf(b)) return b;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? kNegInf : kPosInf;
  return sum;
}

int64_t MulEnd(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product = 0;
  bool overflow = __builtin_mul_overflow(a, b, &product);
  if (IsInf(a) || IsInf(b) || overflow) return (a < 0) != (b < 0) ? kNegInf : kPosInf;
  return product;
}

int64_t DivEnd(int64_t a, int64_t b) {
  if (IsInf(b)) return a < 0 ? -1 : 0;
  return IsInf(a) ? a : FloorDivInt(a, b);
}

}  // namespace

Interval operator+(const Interval& a, const Interval& b) {
  return {AddEnd(a.lo, b.lo), AddEnd(a.hi, b.hi)};
}

Interval operator*(const Interval& a, const Interval& b) {
  auto ends = {MulEnd(a.lo, b.lo), MulEnd(a.lo, b.hi), MulEnd(a.hi, b.lo), MulEnd(a.hi, b.hi)};
  return {std::min(ends), std::max(ends)};
}

Interval operator*(const Interval& a, int64_t factor) { return a * Interval::Point(factor); }

Interval FloorDiv(const Interval& a, const Interval& divisor) {
  auto ends = {DivEnd(a.lo, divisor.lo), DivEnd(a.lo, divisor.hi), DivEnd(a.hi, divisor.lo),
               DivEnd(a.hi, divisor.hi)};
  return {std::min(ends), std::max(ends)};
}

Interval Min(const Interval& a, const Interval& b) {
  return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
}

Interval Max(const Interval& a, const Interval& b) {
  return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
}

Interval Hull(const Interval& a, const Interval& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

Interval Intersect(const Interval& a, const Interval& b) {
  Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;
}

Interval TypeRange(ir::DType t) {
  if (ir::IsBool(t)) return {0, 1};
  if (!ir::IsIntegral(t)) return {};
  if (ir::IsUInt(t)) return {0, t.bits == 64 ? kPosInf : (int64_t{1} << t.bits) - 1};
  if (t.bits == 64) return {};
  int64_t half = int64_t{1} << (t.bits - 1);
  return {-half, half - 1};
}

}  // namespace tilelang::arith
