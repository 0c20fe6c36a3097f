// Rows of tiles that no load brings, since their tensor has fewer.
#ifndef TILELANG_SCHEDULE_MISSING_ROWS_H_
#define TILELANG_SCHEDULE_MISSING_ROWS_H_

#include <vector>

#include "schedule/ring.h"

namespace tilelang::schedule {

// The load without rows that do not exist (existing_rows of its options); itself where all may.
ir::Copy WithoutMissingRows(const ir::CopyNode* load);

// Zeros for the missing rows of all slots, which nothing writes later.
std::vector<ir::Stmt> ClearMissingRows(const std::vector<Ring>& rings);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_MISSING_ROWS_H_
