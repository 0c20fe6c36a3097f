// Stores by TMA in loops are waited for where their tile is written next, not where they stand: a
// persistent kernel computes its next tile meanwhile.
#ifndef TILELANG_SCHEDULE_DEFER_STORES_H_
#define TILELANG_SCHEDULE_DEFER_STORES_H_

#include "ir/function.h"

namespace tilelang::schedule {

// Applies to the stores of a shared tile that is touched in one sequence of statements alone, which
// fills it and then stores it. Before it is filled again, and after the outermost loop that the
// same threads run, the issuing thread waits for its stores. Those become complete in their order,
// so what a later iteration writes to the same place stays.
ir::Func DeferStores(const ir::Func& func);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_DEFER_STORES_H_
