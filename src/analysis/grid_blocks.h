// Blocks of a launch.
#ifndef TILELANG_ANALYSIS_GRID_BLOCKS_H_
#define TILELANG_ANALYSIS_GRID_BLOCKS_H_

#include "ir/stmt.h"

namespace tilelang::analysis {

// An attribute (int) of launches that run only where their grid has no more blocks.
inline constexpr const char* kMostBlocks = "most_blocks";

// Returns the blocks of the grid, at most; very many where a launch says how many.
int64_t BlocksOf(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_GRID_BLOCKS_H_
