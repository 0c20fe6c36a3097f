// What the exhibits share: names for the instructions of PTX that they use.
#include <tl_templates/cuda/common.h>
// The others need it first.
#include <tl_templates/cuda/barrier.h>

namespace tl {

// A bulk copy of `bytes` bytes between global and shared memory, without a tensor map.
TL_DEVICE void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}
TL_DEVICE void bulk_store(void* to, const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
TL_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
TL_DEVICE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
TL_DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// A barrier of the block that also orders operations on tensor memory.
TL_DEVICE void sync_tensor() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
// One column of tensor memory, in the lanes of the warp.
TL_DEVICE uint32_t tmem_load(uint32_t address) {
  uint32_t value;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(address));
  return value;
}
TL_DEVICE void tmem_store(uint32_t address, uint32_t value) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(address), "r"(value)
               : "memory");
}
TL_DEVICE void tmem_wait_load() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
TL_DEVICE void tmem_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
// The address of the warp's own quarter of the lanes.
TL_DEVICE uint32_t own_lanes(uint32_t base) { return base + ((threadIdx.x / 32 % 4) << 21); }

// 128 lanes by 32 bytes of shared memory, eight columns of tensor memory, by the tensor core's
// pipe.
TL_DEVICE void tmem_copy(uint32_t address, const void* from) {
  // Core matrices of eight rows of 16 bytes: 128 bytes from one to the next along the rows, 2048
  // along the columns.
  uint64_t descriptor =
      (uint64_t{1} << 46) | (uint64_t{128 >> 4} << 32) | (uint64_t{2048 >> 4} << 16);
  descriptor |= (shared_address(from) & 0x3FFFF) >> 4;
  asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(address), "l"(descriptor)
               : "memory");
}

TL_DEVICE uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
TL_DEVICE uint32_t in_block(const void* own, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  return address;
}
TL_DEVICE uint32_t load_remote(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
TL_DEVICE void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// Waits for a phase of the own mbarrier, and for what other blocks released by it.
TL_DEVICE void wait_for_cluster(uint64_t& barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done) {
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  }
}

#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
// D += A * B of 64 x 16 and 8 x 16 halves, in core matrices without a swizzle.
TL_DEVICE void wgmma(float (&d)[4], const void* a, const void* b) {
  auto descriptor = [](const void* tile) {
    uint64_t strides = (uint64_t{128 >> 4} << 16) | (uint64_t{256 >> 4} << 32);
    return strides | ((shared_address(tile) & 0x3FFFF) >> 4);
  };
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(a)), "l"(descriptor(b)));
}
TL_DEVICE void wgmma_fence(float (&d)[4]) {
  asm volatile("wgmma.fence.sync.aligned;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
}
TL_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
TL_DEVICE void wgmma_wait(float (&d)[4]) {
  asm volatile("wgmma.wait_group.sync.aligned %4;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "n"(kLeft)
               : "memory");
}
#endif

}  // namespace tl
