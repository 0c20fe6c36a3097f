// Launches whose blocks compute several rows instead of one.
#ifndef TILELANG_TILING_JOINED_ROWS_H_
#define TILELANG_TILING_JOINED_ROWS_H_

#include "ir/stmt.h"

namespace tilelang::tiling {

// Returns the launch whose blocks compute `count` neighbouring blocks of `op` along an axis of the
// grid: fragments get a dimension of the rows, copies load and store `count` rows, and parallel
// loops go over them. Null where a statement does not allow it. `whole`: the grid has a multiple of
// `count` blocks.
ir::Stmt WithJoinedRows(const ir::KernelLaunchNode* op, size_t axis, int64_t count, bool whole);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_JOINED_ROWS_H_
