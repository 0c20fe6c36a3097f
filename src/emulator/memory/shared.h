// Shared memory of one CTA, with the bytes that were ever written.
#ifndef TILELANG_EMULATOR_MEMORY_SHARED_H_
#define TILELANG_EMULATOR_MEMORY_SHARED_H_

#include <cstdint>
#include <cstring>
#include <vector>

namespace tilelang::emulator {

// Shared windows start after the system's kilobyte, as on hardware, so that a null address is
// caught; kernels rely on its 1024-byte alignment.
constexpr uint32_t kSharedReserved = 1024;

class SharedMemory {
 public:
  void Reset(uint32_t bytes) {
    size_ = kSharedReserved + bytes;
    data_.assign(size_ + 16, 0);
    written_.assign(size_ + 16, 0);
  }
  // Offsets count from the start of the window: valid ones are [kSharedReserved, size).
  uint32_t size() const { return size_; }
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return offset >= kSharedReserved && offset + bytes <= size_;
  }
  uint8_t* at(uint32_t offset) { return data_.data() + offset; }
  const uint8_t* at(uint32_t offset) const { return data_.data() + offset; }
  void MarkWritten(uint32_t offset, uint32_t bytes) {
    std::memset(written_.data() + offset, 1, bytes);
  }
  bool IsWritten(uint32_t offset, uint32_t bytes) const {
    return std::memchr(written_.data() + offset, 0, bytes) == nullptr;
  }
  // One byte for each byte of the window: 1 if it was written.
  uint8_t* written(uint32_t offset) { return written_.data() + offset; }

 private:
  uint32_t size_ = 0;
  std::vector<uint8_t> data_, written_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_SHARED_H_
