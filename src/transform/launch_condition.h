// Launches of which each call runs those whose condition holds.
#ifndef TILELANG_TRANSFORM_LAUNCH_CONDITION_H_
#define TILELANG_TRANSFORM_LAUNCH_CONDITION_H_

#include "ir/stmt.h"

namespace tilelang::transform {

// A copy of a launch, of its own blocks and threads, whose grid is empty where the condition does
// not hold. The host decides; the rest of the compiler has another kernel.
ir::KernelLaunch LaunchWhere(const ir::Expr& condition, const ir::KernelLaunchNode* op);

// An extent of a grid as its blocks know it: where there are some.
ir::Expr ExtentInside(const ir::Expr& extent);
// The extent `inside`, empty where `extent` is so by its condition.
ir::Expr EmptyLike(const ir::Expr& extent, const ir::Expr& inside);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_LAUNCH_CONDITION_H_
