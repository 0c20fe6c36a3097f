// Assertions on the device.
#pragma once

namespace tl {

// Prints and traps when the condition is false.
TL_DEVICE void check(bool condition, const char* message) {
  if (condition) return;
  printf("block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z,
         threadIdx.x, threadIdx.y, threadIdx.z, message);
  __trap();
}

}  // namespace tl
