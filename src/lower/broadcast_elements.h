#ifndef TILELANG_LOWER_BROADCAST_ELEMENTS_H_
#define TILELANG_LOWER_BROADCAST_ELEMENTS_H_

#include "ir/function.h"

namespace tilelang::lower {

// Makes one value, the same for all threads that get there, of each element of a fragment that is
// read outside of T.Parallel. If not every thread holds the element, its holders store it to shared
// memory first. Needs layouts. Leaves the condition of a `while`, which has no place for the store.
ir::Func BroadcastElements(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_BROADCAST_ELEMENTS_H_
