#ifndef TILELANG_SYNC_EARLY_FENCES_H_
#define TILELANG_SYNC_EARLY_FENCES_H_

#include <functional>
#include <vector>

#include "ir/stmt.h"

namespace tilelang::sync {

// Returns the statements of a sequence without each tcgen05.fence::before_thread_sync that a later
// one replaces. That one orders all earlier accesses of tensor memory, too. It does so in time if
// until then the threads of the sequence synchronize with each other alone, and none of them
// acquires what the others did: then nobody has a conflicting access in between.
//
// removable: whether a fence may go.
// meets: whether a statement is a barrier of all threads that execute the sequence, and of no
// other.
std::vector<ir::Stmt> WithoutEarlyFences(const std::vector<ir::Stmt>& stmts,
                                         const std::function<bool(const ir::Stmt&)>& removable,
                                         const std::function<bool(const ir::Stmt&)>& meets);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_EARLY_FENCES_H_
