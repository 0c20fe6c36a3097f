#ifndef TILELANG_TRANSFORM_RUN_OWN_WORK_H_
#define TILELANG_TRANSFORM_RUN_OWN_WORK_H_

#include "ir/function.h"

namespace tilelang::transform {

// Replaces copies, fills and parallel loops that each thread does for itself (analysis/own_work.h)
// by serial loops. These may stand where only some threads arrive.
ir::Func RunOwnWork(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_RUN_OWN_WORK_H_
