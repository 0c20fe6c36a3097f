// Tensor memory as a resource, and the ordering of what happens in it (sm_100a).
#pragma once

namespace tl {

// Executed by one whole warp; waits until `columns` (a power of two, 32 to 512) are free and
// writes their address to shared memory. The CTA allocates once and gives up its permit, so that
// another CTA of the SM can allocate. kCtas: 2 in kernels whose gemms pairs of CTAs compute; then
// one warp of each CTA of a pair.
template <int kCtas = 1>
TL_DEVICE void tcgen05_alloc(uint32_t* slot, uint32_t columns) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
                   shared_address(slot)),
               "r"(columns), "n"(kCtas)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(kCtas));
}

// Frees columns. Executed by the warp that allocated them.
template <int kCtas = 1>
TL_DEVICE void tcgen05_dealloc(uint32_t address, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(address),
               "r"(columns), "n"(kCtas));
}

// Orders this thread's tcgen05 operations before, and after, a synchronisation with others.
TL_DEVICE void tcgen05_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
TL_DEVICE void tcgen05_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Arrives on the mbarrier when this thread's earlier tcgen05.mma, .cp and .shift are complete.
TL_DEVICE void tcgen05_commit(uint64_t& barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   shared_address(&barrier))
               : "memory");
}
// The same on that mbarrier of each block of the cluster whose bit is set. kCtas: as above.
template <int kCtas = 1>
TL_DEVICE void tcgen05_commit_multicast(uint64_t& barrier, uint16_t blocks) {
  asm volatile(
      "tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%0], %1;" ::"r"(shared_address(&barrier)),
      "h"(blocks), "n"(kCtas)
      : "memory");
}
// The same of gemms that a pair of CTAs computes, on that mbarrier of both.
TL_DEVICE void tcgen05_commit_pair(uint64_t& barrier) {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  tcgen05_commit_multicast<2>(barrier, static_cast<uint16_t>(3u << (rank & ~1u)));
}

}  // namespace tl
