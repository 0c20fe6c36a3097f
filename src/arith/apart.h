// Decides whether the turns of a loop have places of their own.
#ifndef TILELANG_ARITH_APART_H_
#define TILELANG_ARITH_APART_H_

#include "ir/expr.h"

namespace tilelang::arith {

// The loop runs with var = min, min + 1, ..., min + extent - 1.
struct Turns {
  ir::Var var;
  int64_t min = 0;
  int64_t extent = 0;
};

// Returns whether |index(i) - index(j)| >= distance for any two turns i != j. All other variables
// of `index` have the same values in both turns. Arithmetic wraps as in the dtypes.
//
// With index = a i + b modulo 2^w and a = odd 2^s, the values of two turns differ by a multiple of
// 2^s, which is no multiple of 2^w while turns differ by less than 2^(w - s). If a (extent - 1)
// does not wrap, they differ by at least |a|. An index that is not linear is tried, if the turns
// are few and the index depends on them alone. False means that nothing is known.
bool AreApart(const ir::Expr& index, const Turns& turns, int64_t distance);

// Consecutive elements, whose first one is a function of the turn of a loop.
struct MovingRange {
  ir::Expr first;
  int64_t elements = 0;
};

// Returns whether the range of a turn may have an element in common with the earlier range of the
// turn `distance` turns before it; from `most` on, of a turn so many or more turns before it.
// Ranges that depend on the variable only through remainders by constants may be those of any
// number of turns; other loops need a known and small number of turns. True where nothing is known.
bool MayMeet(const MovingRange& earlier, const MovingRange& later, const Turns& turns,
             int64_t distance, int64_t most);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_APART_H_
