// The grid: a barrier of all its blocks, and programmatic dependent launch, by which the next grid
// may start before this one has ended.
#pragma once

namespace tl {

// Waits until the grids before this one have ended and their writes are visible.
TL_DEVICE void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next grid to start once every block has called this or ended.
TL_DEVICE void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns the counter of a cooperative launch, which the driver sets to 0 and gives by two special
// registers: it comes after four bytes of size.
TL_DEVICE uint32_t* grid_counter() {
  uint32_t high, low;
  asm("mov.u32 %0, %%envreg1;" : "=r"(high));
  asm("mov.u32 %0, %%envreg2;" : "=r"(low));
  return reinterpret_cast<uint32_t*>((static_cast<uint64_t>(high) << 32 | low) + 4);
}

// All threads of all blocks, of which the last to come turns the counter's highest bit: together
// they add 1 << 31.
TL_DEVICE void sync_grid() {
  __syncthreads();
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    constexpr uint32_t kTurn = 1u << 31;
    bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
    uint32_t added = first ? kTurn - (gridDim.x * gridDim.y * gridDim.z - 1) : 1;
    uint32_t* counter = grid_counter();
    uint32_t before, now;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(added)
                 : "memory");
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while (((before ^ now) & kTurn) == 0);
  }
  __syncthreads();
}

}  // namespace tl
