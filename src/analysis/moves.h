// How the iterations of a loop move the elements that an access touches.
#ifndef TILELANG_ANALYSIS_MOVES_H_
#define TILELANG_ANALYSIS_MOVES_H_

#include <vector>

#include "analysis/memory_access.h"

namespace tilelang::analysis {

// Sets `moves`, `turn` and `step` of an access to the element `index`. moving: the variables of
// loops whose iterations are not enumerated.
void FindMoves(const ir::Expr& index, const std::vector<AccessContext::Range>& moving,
               MemoryAccess* access);

// Returns whether iterations of one loop move both accesses by equal steps that are no smaller than
// the elements of both together, so that accesses of different iterations have none in common.
bool IterationsAreApart(const MemoryAccess& a, const MemoryAccess& b);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_MOVES_H_
