// Waits and fences between accesses of tensor memory.
#ifndef TILELANG_SYNC_TENSOR_ORDER_H_
#define TILELANG_SYNC_TENSOR_ORDER_H_

#include "analysis/access_table.h"
#include "analysis/conflict_table.h"
#include "analysis/thread_set.h"

namespace tilelang::sync {

// Returns the body of a launch, in which threads wait for each other and for engines wherever
// accesses conflict, with what these edges need beside that:
//
//   earlier access    later access of the same cells   needs
//   tcgen05.st        tcgen05.ld of the same warp      wait::st
//   tcgen05.ld, .st   of other warps, tensor core      wait::st of stores, fence::before; then they
//                                                      synchronize; fence::after
//   tensor core       of threads, of another issuer    commit, wait for the phase; fence::after
//   of another role   any                              the wait for a barrier on which that role
//                                                      arrives; fence::after
//
// wait::st and fence::before stand before the first synchronization after the access, fence::after
// before the first access that conflicts, all of them before the loops that would repeat them. A
// load waits for stores as well if their registers and its own are more than half of a thread's.
ir::Stmt OrderTensorMemory(const ir::Stmt& body, const analysis::BlockThreads& threads,
                           const analysis::AccessContext& context, analysis::AccessTable* table,
                           analysis::ConflictTable* conflicts);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_TENSOR_ORDER_H_
