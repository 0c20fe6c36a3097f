#ifndef TILELANG_TRANSFORM_SHARE_DECISIONS_H_
#define TILELANG_TRANSFORM_SHARE_DECISIONS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Makes one value for all threads of the elements of fragments that decide which tile operators
// run, how often, or on which tiles. Roles that do not hold the elements get the value, too. Such a
// fragment gets a twin in shared memory, to which it is copied whenever an operator has written it;
// the decisions read the twin.
ir::Func ShareDecisions(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SHARE_DECISIONS_H_
