#ifndef TILELANG_LOWER_HIDE_REMAINDERS_H_
#define TILELANG_LOWER_HIDE_REMAINDERS_H_

#include "ir/function.h"

namespace tilelang::lower {

// Conditions by which every n-th thread takes a branch, tx % n == 0, ask for a copy of the thread's
// index of which NVVM knows nothing. NVVM 13.0 otherwise marks tx / n in the branch as exact,
// merges it with tx / n of all threads, and so gives the other threads the address of tx where it
// is to be that of tx / n * n: their loads are misaligned. Applies to all targets, where the kernel
// divides the index. The copy takes no instruction after ptxas.
ir::Func HideRemainders(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_HIDE_REMAINDERS_H_
