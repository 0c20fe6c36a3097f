// Closed integer intervals with infinite ends; arithmetic saturates.
#ifndef TILELANG_ARITH_INTERVAL_H_
#define TILELANG_ARITH_INTERVAL_H_

#include <cstdint>
#include <limits>

#include "ir/dtype.h"

namespace tilelang::arith {

inline constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kPosInf = std::numeric_limits<int64_t>::max();

// Integers from lo to hi, both included. An end of kNegInf or kPosInf is unbounded.
struct Interval {
  int64_t lo = kNegInf;
  int64_t hi = kPosInf;

  static Interval Point(int64_t value) { return {value, value}; }
  bool IsPoint() const { return lo == hi && lo != kNegInf && lo != kPosInf; }
  bool IsFinite() const { return lo != kNegInf && hi != kPosInf; }
  bool Contains(const Interval& other) const { return lo <= other.lo && other.hi <= hi; }
  bool operator==(const Interval&) const = default;
};

Interval operator+(const Interval& a, const Interval& b);
Interval operator*(const Interval& a, const Interval& b);
Interval operator*(const Interval& a, int64_t factor);
// Rounding toward minus infinity; all values of the divisor are positive.
Interval FloorDiv(const Interval& a, const Interval& divisor);
Interval Min(const Interval& a, const Interval& b);
Interval Max(const Interval& a, const Interval& b);
// The smallest interval that contains both.
Interval Hull(const Interval& a, const Interval& b);
// The common part; `a` when there is none (code that never runs).
Interval Intersect(const Interval& a, const Interval& b);

// Returns the range of a type; 64-bit types are unbounded (upward only if unsigned).
Interval TypeRange(ir::DType t);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_INTERVAL_H_
