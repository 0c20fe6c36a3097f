#ifndef TILELANG_LOWER_GUARD_ACCESSES_H_
#define TILELANG_LOWER_GUARD_ACCESSES_H_

#include "ir/function.h"

namespace tilelang::lower {

// Makes every element access to global memory safe at ragged edges: a load that is not proven in
// bounds gives zero outside, a store or atomic does nothing there.
ir::Func GuardAccesses(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_GUARD_ACCESSES_H_
