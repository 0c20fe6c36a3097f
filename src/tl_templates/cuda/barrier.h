// Barriers of the CTA, mbarriers, proxy fences, register budgets.
#pragma once

namespace tl {

// Waits at named barrier `id` for `threads` threads, a multiple of the warp size.
TL_DEVICE void sync_threads(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Counts this warp in on such a barrier, without waiting.
TL_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// An mbarrier is 8 bytes of shared memory. Its phases are numbered from 0; the parity of the
// phase that runs is its number modulo 2.
TL_DEVICE void mbarrier_init(uint64_t& barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(arrivals)
               : "memory");
}
TL_DEVICE void mbarrier_inval(uint64_t& barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
TL_DEVICE void mbarrier_arrive(uint64_t& barrier) {
  asm volatile(
      "{\n\t.reg .b64 state;\n\t"
      "mbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(shared_address(&barrier))
      : "memory");
}

// Returns true when the phase of that parity has completed.
TL_DEVICE bool mbarrier_try_wait(uint64_t& barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
#else
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
#endif
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(done)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
TL_DEVICE void mbarrier_wait(uint64_t& barrier, uint32_t parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

#if __CUDA_ARCH__ >= 900
TL_DEVICE void mbarrier_expect_tx(uint64_t& barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}
TL_DEVICE void mbarrier_arrive_expect_tx(uint64_t& barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}
// Arrives on the same barrier of another CTA of the cluster, whose threads see what this one stored
// before. That takes a fence of the whole GPU.
TL_DEVICE void mbarrier_arrive(uint64_t& barrier, uint32_t cta) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\t"
      "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n\t}" ::"r"(
          shared_address(&barrier)),
      "r"(cta)
      : "memory");
}

// The same where nothing was stored for others: a tile has been read.
TL_DEVICE void mbarrier_give_back(uint64_t& barrier, uint32_t cta) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\t"
      "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(shared_address(&barrier)),
      "r"(cta)
      : "memory");
}

// Returns the address at which the even CTA of a pair has what this CTA has at `own`.
TL_DEVICE uint32_t address_in_leader(const void* own) {
  uint32_t address;
  asm("{\n\t.reg .b32 rank;\n\t"
      "mov.u32 rank, %%cluster_ctarank;\n\t"
      "and.b32 rank, rank, -2;\n\t"
      "mapa.shared::cluster.u32 %0, %1, rank;\n\t}"
      : "=r"(address)
      : "r"(shared_address(own)));
  return address;
}
// Announces bytes on that CTA's barrier.
TL_DEVICE void mbarrier_expect_tx_pair(uint64_t& barrier, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(
                   address_in_leader(&barrier)),
               "r"(bytes)
               : "memory");
}
// And arrives there. What this thread has stored before is not for the threads that wait.
TL_DEVICE void mbarrier_arrive_expect_tx_pair(uint64_t& barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
                   address_in_leader(&barrier)),
               "r"(bytes)
               : "memory");
}

// Makes initialised mbarriers visible to the cluster and to the async proxy.
TL_DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Orders this thread's accesses of shared memory before those of the async proxy that follow.
TL_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Executed by all warps of a warpgroup.
template <int kRegisters>
TL_DEVICE void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
TL_DEVICE void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#endif

}  // namespace tl
