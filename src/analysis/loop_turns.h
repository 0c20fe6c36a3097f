// Whether the turns of a loop store to places of their own.
#ifndef TILELANG_ANALYSIS_LOOP_TURNS_H_
#define TILELANG_ANALYSIS_LOOP_TURNS_H_

#include <unordered_set>

#include "arith/apart.h"
#include "ir/stmt.h"

namespace tilelang::analysis {

class LoopTurns {
 public:
  explicit LoopTurns(const ir::Stmt& loop);

  // Whether a box of these extents that begins at `corner` has no element in common with that of
  // another turn: dimension by dimension, by what does not depend on the body's own variables.
  bool AreApart(const ir::Array<ir::Expr>& corner, const ir::Array<int64_t>& extents) const;

 private:
  arith::Turns turns_;  // without a variable where their number is not known
  std::unordered_set<const ir::ffi::Object*> inside_;  // variables that the body defines
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_LOOP_TURNS_H_
