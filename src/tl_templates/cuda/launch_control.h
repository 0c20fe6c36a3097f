// Cluster launch control (sm_100): a running cluster takes over one that has not started. An answer
// is 16 bytes of shared memory, which only these functions read.
#pragma once

#include "common.h"

namespace tl {

#if __CUDA_ARCH__ >= 1000
TL_DEVICE void clc_ask(void* answer, uint64_t& barrier) {
  asm volatile(
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], "
      "[%1];" ::"r"(shared_address(answer)),
      "r"(shared_address(&barrier))
      : "memory");
}
// What this thread has seen of the last answer comes before the next one.
TL_DEVICE void clc_try_cancel(void* answer, uint64_t& barrier) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  clc_ask(answer, barrier);
}
// The answer goes to every block of the cluster.
TL_DEVICE void clc_try_cancel_multicast(void* answer, uint64_t& barrier) {
  asm volatile(
      "fence.proxy.async.shared::cta;\n\t"
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
      ".multicast::cluster::all.b128 [%0], [%1];" ::"r"(shared_address(answer)),
      "r"(shared_address(&barrier))
      : "memory");
}

TL_DEVICE uint32_t clc_is_canceled(const void* answer) {
  uint32_t canceled;
  asm volatile(
      "{\n\t.reg .b128 answer;\n\t.reg .pred p;\n\t"
      "ld.shared.b128 answer, [%1];\n\t"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(canceled)
      : "r"(shared_address(answer))
      : "memory");
  return canceled;
}

#define TL_FIRST_CTAID(AXIS)                                                                     \
  TL_DEVICE uint32_t clc_get_first_ctaid_##AXIS(const void* answer) {                            \
    uint32_t id;                                                                                 \
    asm volatile(                                                                                \
        "{\n\t.reg .b128 answer;\n\t"                                                            \
        "ld.shared.b128 answer, [%1];\n\t"                                                       \
        "clusterlaunchcontrol.query_cancel.get_first_ctaid::" #AXIS ".b32.b128 %0, answer;\n\t}" \
        : "=r"(id)                                                                               \
        : "r"(shared_address(answer))                                                            \
        : "memory");                                                                             \
    return id;                                                                                   \
  }
TL_FIRST_CTAID(x)
TL_FIRST_CTAID(y)
TL_FIRST_CTAID(z)
#undef TL_FIRST_CTAID
#endif

}  // namespace tl
