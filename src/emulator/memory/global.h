// Global memory: host buffers mapped at virtual addresses, with bounds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

namespace tilelang::emulator {

// Each buffer has its own 64 GiB slice of the address space, so that a stray address hits
// nothing and address >> kBufferShift finds the buffer. Slice 0 holds the windows below.
constexpr int kBufferShift = 36;
// Generic addresses of the other state spaces; each window is 4 GiB wide.
constexpr uint64_t kSharedWindow = 0x7'0000'0000;
constexpr uint64_t kLocalWindow = 0x8'0000'0000;
constexpr uint64_t kParamWindow = 0x9'0000'0000;
constexpr uint64_t kConstWindow = 0xA'0000'0000;

struct GlobalBuffer {
  uint8_t* host = nullptr;  // nullptr: a free slice
  uint64_t size = 0;
  // A part that programs may touch (a view of the allocation); offsets, half open.
  struct Range {
    uint64_t begin, end;
    bool writable;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;
  std::string name;
  std::vector<uint8_t> owned;  // storage of buffers that the emulator itself allocates
};

// Not changed while launches run (mapping happens before), hence read without locks.
class GlobalMemory {
 public:
  GlobalMemory();
  // Maps [host, host + size) and returns its virtual address (a multiple of 2^36). Nothing is
  // accessible until AllowRange.
  uint64_t Map(uint8_t* host, uint64_t size, std::string name);
  uint64_t Allocate(uint64_t size, std::string name);
  // What several ranges cover may be read, and written if what covers it is writable.
  void AllowRange(uint64_t address, uint64_t bytes, bool writable);
  void ForbidRange(uint64_t address, uint64_t bytes, bool writable);
  void SetName(uint64_t address, std::string name);
  void Unmap(uint64_t address);

  // Host pointer to [address, address + bytes), or nullptr when out of bounds or (for writes)
  // read-only.
  uint8_t* Find(uint64_t address, uint64_t bytes, bool write) const {
    uint64_t index = address >> kBufferShift;
    if (index >= buffers_.size()) return nullptr;
    const GlobalBuffer& buffer = buffers_[index];
    uint64_t offset = address & ((uint64_t{1} << kBufferShift) - 1);
    if (buffer.ranges.empty()) return nullptr;
    const GlobalBuffer::Range& first = buffer.ranges.front();
    if (offset >= first.begin && offset + bytes <= first.end && (first.writable || !write)) {
      return buffer.host + offset;
    }
    return FindSlow(buffer, offset, bytes, write);
  }
  // "buffer `x` of 4096 bytes, 16 bytes behind its end" for messages.
  std::string Describe(uint64_t address) const;
  std::string NameOf(uint64_t address) const;

 private:
  static uint8_t* FindSlow(const GlobalBuffer& buffer, uint64_t offset, uint64_t bytes, bool write);
  std::vector<GlobalBuffer> buffers_;
  std::vector<uint32_t> free_;
};

}  // namespace tilelang::emulator
