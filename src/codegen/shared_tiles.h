// The tiles of a kernel in shared memory, for reports about its addresses.
#ifndef TILELANG_CODEGEN_SHARED_TILES_H_
#define TILELANG_CODEGEN_SHARED_TILES_H_

#include "ir/compiled.h"

namespace tilelang {

// Returns the tiles in shared memory in the order of their allocations. PlanSharedMemory must have
// run.
Array<SharedTile> SharedTilesOf(const ir::KernelLaunchNode* launch);

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_SHARED_TILES_H_
