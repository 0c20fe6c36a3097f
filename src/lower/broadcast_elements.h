#ifndef TILELANG_LOWER_BROADCAST_ELEMENTS_H_
#define TILELANG_LOWER_BROADCAST_ELEMENTS_H_

#include "ir/function.h"

namespace tilelang::lower {

// An element of a fragment that is read outside of T.Parallel is one value, the same for all
// threads that get there. Where not each of them holds it, those that do store it to shared memory
// first. Needs layouts. The condition of a `while` has no place for that, and is left.
ir::Func BroadcastElements(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_BROADCAST_ELEMENTS_H_
