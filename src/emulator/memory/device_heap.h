// The heap that malloc and free of device code work on.
#ifndef TILELANG_EMULATOR_MEMORY_DEVICE_HEAP_H_
#define TILELANG_EMULATOR_MEMORY_DEVICE_HEAP_H_

#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

#include "emulator/memory/zeroed_bytes.h"

namespace tilelang::emulator {

// Blocks live until they are freed, also beyond their launch. Their addresses are offsets that are
// used once each, so that a pointer to a freed block hits nothing; on the host they lie in one
// arena, which such a pointer cannot leave. Threads may use it beside each other.
class DeviceHeap {
 public:
  static constexpr uint64_t kBytes = 8 << 20;  // as CUDA's default, cudaLimitMallocHeapSize

  // Offset of a new block, filled with ones; 0 if there is no room.
  uint64_t Allocate(uint64_t bytes);
  // False if `offset` is not that of a block.
  bool Free(uint64_t offset);
  // Host pointer to [offset, offset + bytes) of one block, or nullptr.
  uint8_t* Find(uint64_t offset, uint64_t bytes) const;
  // "byte 4 of a block of 16 bytes from malloc".
  std::string Describe(uint64_t offset) const;

 private:
  struct Block {
    uint64_t bytes = 0;
    uint64_t place = 0;  // in the arena
  };
  using Blocks = std::map<uint64_t, Block>;

  // The block that begins at or before `offset`, or the end.
  Blocks::const_iterator Before(uint64_t offset) const;

  mutable std::shared_mutex mutex_;
  ZeroedBytes arena_;
  Blocks blocks_;                      // by offset
  std::map<uint64_t, uint64_t> used_;  // of the arena: from, to
  uint64_t next_place_ = 0;            // where the next search begins
  uint64_t next_offset_ = kAlign;

  static constexpr uint64_t kAlign = 256;  // of blocks; at least one unit lies between two
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_DEVICE_HEAP_H_
