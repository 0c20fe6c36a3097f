// Finds the conditions of launches: each call runs the launches whose condition holds.
#ifndef TILELANG_TRANSFORM_LAUNCH_CONDITION_H_
#define TILELANG_TRANSFORM_LAUNCH_CONDITION_H_

#include "ir/stmt.h"

namespace tilelang::transform {

// A copy of a launch, of its own blocks and threads, whose grid is empty where the condition does
// not hold. The host decides; the rest of the compiler has another kernel.
ir::KernelLaunch LaunchWhere(const ir::Expr& condition, const ir::KernelLaunchNode* op);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_LAUNCH_CONDITION_H_
