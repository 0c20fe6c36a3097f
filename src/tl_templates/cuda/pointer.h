// Memory by an address that the program computes.
#pragma once

namespace tl {

template <typename T>
TL_DEVICE T load_at(uint64_t base, int64_t index) {
  return reinterpret_cast<const T*>(base)[index];
}
template <typename T>
TL_DEVICE void store_at(uint64_t base, int64_t index, T value) {
  reinterpret_cast<T*>(base)[index] = value;
}

}  // namespace tl
