// Compares two accesses of memory: whether different threads may touch common bytes.
#ifndef TILELANG_ANALYSIS_CONFLICTS_H_
#define TILELANG_ANALYSIS_CONFLICTS_H_

#include "analysis/memory_access.h"

namespace tilelang::analysis {

// An attribute of shared buffers (true): each thread writes its own elements, the same each time,
// and no thread reads any.
inline constexpr const char* kOwnElements = "own_elements";

// Returns whether the value of the expression depends on memory, which other statements may change.
bool ReadsMemory(const ir::Expr& e);

// Returns whether TMA stores may write common elements; carried: see MayConflict. A tile that
// several iterations store is mostly filled in each of them, and the threads then wait for its
// stores. The places of each iteration are therefore compared only for other tiles.
bool BoxesOverlap(const MemoryAccess& earlier, const MemoryAccess& later, bool carried);

// True unless every two threads that touch common bytes, one of them writing, are one thread, and
// none of them leaves the access to an asynchronous engine. Two accesses that one thread leaves to
// engines do not conflict either: it waits in between. carried: `earlier` belongs to an earlier
// iteration of a loop around both.
bool MayConflict(const MemoryAccess& earlier, const MemoryAccess& later, bool carried);
// Returns whether different threads are known to touch a common element, one of them writing it.
bool IsKnownConflict(const MemoryAccess& earlier, const MemoryAccess& later);
// Returns whether each thread touches the same elements in both accesses, provided that the memory
// that their indices are read from does not change in between.
bool TouchSameElements(const MemoryAccess& a, const MemoryAccess& b);
// Returns whether two accesses of tensor memory may use a common cell, whatever threads make them.
bool ShareCells(const MemoryAccess& earlier, const MemoryAccess& later);
// Returns whether threads of different warpgroups may conflict in this way.
bool WarpgroupsMayConflict(const MemoryAccess& earlier, const MemoryAccess& later, bool carried);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_CONFLICTS_H_
