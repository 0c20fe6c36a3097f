#ifndef TILELANG_TRANSFORM_RESOLVE_ROLES_H_
#define TILELANG_TRANSFORM_RESOLVE_ROLES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Finds which threads reach each tile operator. Conditions on the thread index around tile
// operators are evaluated in every thread. Conditions that select consecutive whole warps (or one
// thread) are written as comparisons of the linear thread index with constants, whatever their
// spelling. From here on every tile operator stands under such conditions, and under conditions and
// loops that all its threads take alike, and under no others. Raises SemanticsError for an operator
// that other sets of threads reach, or threads that are known only at run time.
ir::Func ResolveRoles(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_RESOLVE_ROLES_H_
