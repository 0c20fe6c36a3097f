// Clusters (sm_90 and later): the barrier of all their threads, and shared memory of other blocks.
// A block's memory is reached by the address that it has in the caller's, and the block's rank.
#pragma once

#include "barrier.h"

namespace tl {

#if __CUDA_ARCH__ >= 900
TL_DEVICE int block_rank_in_cluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Each thread of the cluster alternates: arrives, waits for all.
TL_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
TL_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
TL_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
TL_DEVICE void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

TL_DEVICE uint32_t address_in_block(const void* own, int block) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared_address(own)), "r"(block));
  return address;
}

template <typename T, typename V>
TL_DEVICE void store_to_block(T* own, V converted, int block) {
  T value = static_cast<T>(converted);
  uint32_t address = address_in_block(own, block);
  if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(address),
                 "l"(*reinterpret_cast<const uint64_t*>(&value))
                 : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(address),
                 "r"(*reinterpret_cast<const uint32_t*>(&value))
                 : "memory");
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("st.shared::cluster.b16 [%0], %1;" ::"r"(address),
                 "h"(*reinterpret_cast<const uint16_t*>(&value))
                 : "memory");
  } else {
    static_assert(sizeof(T) == 1, "elements of 1 to 8 bytes");
    asm volatile("st.shared::cluster.b8 [%0], %1;" ::"r"(address),
                 "r"(static_cast<uint32_t>(*reinterpret_cast<const uint8_t*>(&value)))
                 : "memory");
  }
}

// Arrives on a barrier of another block, whose phase also waits for the bytes.
TL_DEVICE void arrive_at_block_expecting(uint32_t bytes, uint64_t& barrier, int block) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
                   address_in_block(&barrier, block)),
               "r"(bytes)
               : "memory");
}

// Lets one thread copy to the same place in another block, on whose barrier the bytes complete.
TL_DEVICE void copy_to_block(void* own_destination, const void* source, uint32_t bytes,
                             uint64_t& barrier, int block) {
  uint32_t remote_barrier = address_in_block(&barrier, block);
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(address_in_block(own_destination, block)),
      "r"(shared_address(source)), "r"(bytes), "r"(remote_barrier)
      : "memory");
}

// As mbarrier_wait; sees what threads of other blocks did before they arrived.
TL_DEVICE void mbarrier_wait_cluster(uint64_t& barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  } while (done == 0);
}
#endif

}  // namespace tl
