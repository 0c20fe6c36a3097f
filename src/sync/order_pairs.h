#ifndef TILELANG_SYNC_ORDER_PAIRS_H_
#define TILELANG_SYNC_ORDER_PAIRS_H_

#include "ir/function.h"

namespace tilelang::sync {

// Orders the memory of both blocks in programs that issue GEMMs of pairs (T.tcgen05_gemm with
// use_2cta). The tensor core reads the memory of both blocks after one block has seen the other
// arrive at its barrier. Loads that complete on that barrier need nothing more. Data that threads
// have written, or have waited for themselves, needs a fence of the whole GPU at these arrivals and
// at the waits for them. Runs before other passes use the barriers of the program to order
// anything.
ir::Func OrderPairs(const ir::Func& func);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_ORDER_PAIRS_H_
