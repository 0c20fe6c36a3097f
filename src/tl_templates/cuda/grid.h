// Programmatic dependent launch: the next grid may start before this one has ended.
#pragma once

namespace tl {

// Until the grids before this one have ended and their writes are visible.
TL_DEVICE void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next grid may start once every block has called this or ended.
TL_DEVICE void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tl
