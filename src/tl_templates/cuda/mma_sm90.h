// wgmma (sm_90a): what stands around the instructions, which a kernel defines as it needs them.
#pragma once

namespace tl {

// Returns the index of the thread's warpgroup, in a register that is known to be uniform.
TL_DEVICE int warpgroup_index(int thread) { return __shfl_sync(0xffffffff, thread / 128, 0); }

// Lets the wgmma that follow use registers that were accessed before.
TL_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Makes a group of the warpgroup's wgmma since the last commit.
TL_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most kPending of the warpgroup's groups are incomplete.
template <int kPending>
TL_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The registers have their values here, and nothing that uses them moves across: before a fence,
// or after a wait, neither of which names them.
template <int kCount>
TL_DEVICE void hold(float* r) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(r[i]));
}
// The same as the instruction names them: float32 of A are 32 bits to it, and must not become those
// behind the fence.
template <int kCount>
TL_DEVICE void hold_bits(void* array) {
  auto* r = static_cast<uint32_t*>(array);
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(r[i]));
}
template <int kCount>
TL_DEVICE void hold(void* array) {
  hold_bits<kCount>(array);
}

}  // namespace tl
