// The tiles of a kernel in shared memory and in registers, for reports about their contents.
#ifndef TILELANG_CODEGEN_NAMED_TILES_H_
#define TILELANG_CODEGEN_NAMED_TILES_H_

#include "ir/compiled.h"

namespace tilelang {

// Returns the tiles in the order of their allocations. PlanSharedMemory must have run.
Array<NamedTile> NamedTilesOf(const ir::KernelLaunchNode* launch);

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_NAMED_TILES_H_
