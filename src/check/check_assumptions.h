#ifndef TILELANG_CHECK_CHECK_ASSUMPTIONS_H_
#define TILELANG_CHECK_CHECK_ASSUMPTIONS_H_

#include "ir/function.h"

namespace tilelang::check {

// Inserts a test before each T.assume of a kernel: a kernel whose assumption is wrong ends with the
// line and the fact, where it would compute something else.
ir::Func CheckAssumptions(const ir::Func& func);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CHECK_ASSUMPTIONS_H_
