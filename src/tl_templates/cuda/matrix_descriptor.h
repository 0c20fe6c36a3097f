// Matrix descriptors of wgmma and tcgen05.
#pragma once

namespace tl {

// Returns the descriptor of a matrix in shared memory: its address, and the constant bits that the
// compiler computes (offsets, swizzle). Adding n moves it by 16 n bytes.
TL_DEVICE uint64_t matrix_descriptor(const void* start, uint64_t bits) {
  return bits | ((shared_address(start) & 0x3FFFF) >> 4);
}

}  // namespace tl
