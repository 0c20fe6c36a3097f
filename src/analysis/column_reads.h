#ifndef TILELANG_ANALYSIS_COLUMN_READS_H_
#define TILELANG_ANALYSIS_COLUMN_READS_H_

#include "ir/stmt.h"

namespace tilelang::analysis {

// Returns whether threads read the shared tile along its columns, and do nothing else with it
// beside the copy that fills it: the last variable of a parallel loop, along which a thread has
// vectors, steps over rows of the tile. A transposition does so:
//
//     for i, j in T.Parallel(64, 64): B[bx * 64 + i, by * 64 + j] = tile[j, i]
bool IsReadByColumns(const ir::KernelLaunchNode* launch, const ir::Buffer& tile);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_COLUMN_READS_H_
