#ifndef TILELANG_TRANSFORM_STAGE_COLUMNS_H_
#define TILELANG_TRANSFORM_STAGE_COLUMNS_H_

#include <optional>

#include "analysis/loop_box.h"
#include "ir/function.h"

namespace tilelang::transform {

// Copies boxes of tensors that parallel loops read along columns to shared tiles:
//
//   for i, j in T.Parallel(64, 64):             T.copy(A[y:y + 64, x:x + 64], A_columns)
//       B[x + i, y + j] = A[y + j, x + i]   ->  for i, j in T.Parallel(64, 64):
//                                                   B[x + i, y + j] = A_columns[j, i]
//
// Neighbouring threads otherwise load elements of different rows, each with a sector of memory of
// its own. A loop that stores along columns instead, and touches tensors alone, first gets the
// variable that moves the columns of all its stores as its last one.
//
// Launches without GEMMs, whose loops stand in the body of the launch or in loops there. The tensor
// is not written. A row of the tile has at least a sector of 32 bytes, and all tiles of a launch
// have at most 64 KiB. A remark says it, and the pass option tl.disable_column_staging turns it
// off. It acts on all targets.
ir::Func StageColumns(const ir::Func& func);

// Returns the box of a tensor whose columns the loop reads by such an access, if a shared tile may
// hold it.
std::optional<analysis::LoopBox> ColumnsOf(const ir::Buffer& tensor,
                                           const ir::Array<ir::Expr>& indices,
                                           const ir::ParallelForNode* loop);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_STAGE_COLUMNS_H_
