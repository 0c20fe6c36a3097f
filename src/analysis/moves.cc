#include "analysis/moves.h"

#include <algorithm>
#include <cstdlib>

#include "arith/analyzer.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

void FindMoves(const ir::Expr& index, const std::vector<AccessContext::Range>& moving,
               MemoryAccess* access) {
  for (const auto& [var, min, extent] : moving) {
    if (!ir::UsesVar(index, var)) continue;
    bool is_first = !access->moves;
    access->moves = true;
    access->turn = is_first ? var : ir::Var();
    access->step = is_first ? arith::Analyzer().StrideOf(index, var).value_or(0) : 0;
  }
}

bool IterationsAreApart(const MemoryAccess& a, const MemoryAccess& b) {
  if (a.step == 0 || a.step != b.step || !a.turn.same_as(b.turn)) return false;
  if (!a.owners || !b.owners) return false;
  const OwnerMap &x = *a.owners, &y = *b.owners;
  if (x.owner.empty() || y.owner.empty()) return true;
  auto end = [](const OwnerMap& map) { return map.Begin(map.owner.size() - 1) + map.unit; };
  return std::max(end(x), end(y)) - std::min(x.Begin(0), y.Begin(0)) <= std::abs(a.step);
}

}  // namespace tilelang::analysis
