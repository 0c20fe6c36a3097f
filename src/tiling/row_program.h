// Launches whose threads load tiles to fragments, compute and store, such as norms of rows.
#ifndef TILELANG_TILING_ROW_PROGRAM_H_
#define TILELANG_TILING_ROW_PROGRAM_H_

#include "ir/stmt.h"

namespace tilelang::tiling {

// Returns whether the launch has only fragments, and copies, fills, reductions and parallel loops
// on them, and no block of it can see what another one does.
bool HasRowsOnly(const ir::KernelLaunchNode* launch);

// Returns the elements of the largest fragment of such a launch.
int64_t LargestFragment(const ir::KernelLaunchNode* launch);

// Returns whether it has a reduction.
bool Reduces(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ROW_PROGRAM_H_
