#ifndef TILELANG_SYNC_ORDER_PAIRS_H_
#define TILELANG_SYNC_ORDER_PAIRS_H_

#include "ir/function.h"

namespace tilelang::sync {

// Where the program issues gemms of pairs (T.tcgen05_gemm with use_2cta), the tensor core reads the
// memory of both blocks when one of them has seen the other arrive at its barrier. Loads that
// complete on that barrier need no more. For what threads have written, or have waited for
// themselves, those arrivals, and the waits for them, order memory of both blocks: that takes a
// fence of the whole GPU. Runs before other passes order anything by the program's barriers.
ir::Func OrderPairs(const ir::Func& func);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_ORDER_PAIRS_H_
