// Large zeroed memory: what a program does not touch costs the host nothing.
#ifndef TILELANG_EMULATOR_MEMORY_ZEROED_BYTES_H_
#define TILELANG_EMULATOR_MEMORY_ZEROED_BYTES_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace tilelang::emulator {

class ZeroedBytes {
 public:
  ZeroedBytes() = default;
  // Throws std::bad_alloc.
  explicit ZeroedBytes(size_t bytes) {
    if (bytes == 0) return;
    data_.reset(static_cast<uint8_t*>(std::calloc(bytes, 1)));
    if (!data_) throw std::bad_alloc();
  }
  uint8_t* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_ZEROED_BYTES_H_
