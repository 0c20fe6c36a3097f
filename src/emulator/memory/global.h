// Global memory: host buffers mapped at virtual addresses, with bounds.
#ifndef TILELANG_EMULATOR_MEMORY_GLOBAL_H_
#define TILELANG_EMULATOR_MEMORY_GLOBAL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/memory/device_heap.h"
#include "emulator/memory/zeroed_bytes.h"

namespace tilelang::emulator {

// Each buffer has its own 64 GiB slice of the address space, so that a stray address hits
// nothing and address >> kBufferShift finds the buffer. Slice 0 holds the windows below.
constexpr int kBufferShift = 36;
// Generic addresses of the other state spaces; each window is 4 GiB wide.
constexpr uint64_t kSharedWindow = 0x7'0000'0000;
constexpr uint64_t kLocalWindow = 0x8'0000'0000;
constexpr uint64_t kParamWindow = 0x9'0000'0000;
constexpr uint64_t kConstWindow = 0xA'0000'0000;
// The least global address. Smaller ones count as null pointers and offsets from them.
constexpr uint64_t kLeastAddress = uint64_t{1} << 16;
// Global addresses have 49 bits, as on a GPU. The last slice is the heap of device code.
constexpr uint64_t kHeapBase = (uint64_t{1} << 49) - (uint64_t{1} << kBufferShift);
constexpr uint64_t kAddressEnd = kHeapBase;

// A part of a slice that lies in one piece on the host. Offsets count from the slice's start.
struct GlobalBuffer {
  uint64_t begin = 0, end = 0;
  uint8_t* host = nullptr;  // of `begin`
  std::string name;
  uint8_t* written = nullptr;  // of each byte: whether something has written it; null: not followed
  ZeroedBytes owned;           // storage of buffers that the emulator itself allocates
};

struct GlobalSlice {
  // Usually one; several where addresses were chosen. In order.
  std::vector<GlobalBuffer> buffers;
  // A part that programs may touch (a view of a buffer); offsets, half open.
  struct Range {
    uint64_t begin, end;
    bool writable;
    uint8_t* host;  // of `begin`
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;
};

// Memory of the host, half open.
struct HostRange {
  uintptr_t begin, end;
};

// The global memory of a device. Launches do not change the mapping, so they read it without locks.
class GlobalMemory {
 public:
  GlobalMemory();
  GlobalMemory(const GlobalMemory&) = delete;
  // Maps [host, host + size) and returns its virtual address (a multiple of 2^36). Nothing is
  // accessible until AllowRange. Throws EmulatorError("too-large").
  uint64_t Map(uint8_t* host, uint64_t size, std::string name);
  // The same at a chosen address. Throws EmulatorError("address") when it is out of range or taken.
  void MapAt(uint64_t address, uint8_t* host, uint64_t size, std::string name);
  // Zeroed memory of the host, at a chosen address unless that is 0. Throws EmulatorError:
  // "too-large", "out-of-memory", or "address" as MapAt.
  uint64_t Allocate(uint64_t size, std::string name, uint64_t address = 0);
  // Allows or forbids a range. Bytes that several ranges cover may be read, and may be written if a
  // writable range covers them.
  void AllowRange(uint64_t address, uint64_t bytes, bool writable);
  void ForbidRange(uint64_t address, uint64_t bytes, bool writable);
  void Unmap(uint64_t address);
  // Begins to record in `written` which bytes of the buffer mapped at `address` are written.
  void Follow(uint64_t address, uint8_t* written);
  // One byte for each byte from `address` to the end of its buffer, 0 where nothing has written it;
  // nullptr where that is not followed.
  uint8_t* WrittenAt(uint64_t address) const { return follows_ ? FindWritten(address) : nullptr; }
  // Returns the ranges that programs may touch, without the heap of device code.
  std::vector<HostRange> HostRanges() const;

  // Host pointer to [address, address + bytes), or nullptr when out of bounds or (for writes)
  // read-only.
  uint8_t* Find(uint64_t address, uint64_t bytes, bool write) const {
    uint64_t index = address >> kBufferShift;
    if (index >= slices_.size()) return FindInHeap(address, bytes);
    const GlobalSlice& slice = slices_[index];
    uint64_t offset = address & kOffsetMask;
    if (slice.ranges.empty()) return nullptr;
    const GlobalSlice::Range& first = slice.ranges.front();
    if (offset >= first.begin && offset + bytes <= first.end && (first.writable || !write)) {
      return first.host + (offset - first.begin);
    }
    return FindSlow(slice, offset, bytes, write);
  }
  // "byte 4112 of buffer 'x', which has 4096 bytes" for messages.
  std::string Describe(uint64_t address) const;
  std::string NameOf(uint64_t address) const;
  // Bytes of the buffer at `address`; 0 if there is none.
  uint64_t SizeAt(uint64_t address) const;
  // Address of a new block, or 0; the heap alone changes while launches run.
  uint64_t AllocateOnHeap(uint64_t bytes);
  bool FreeOnHeap(uint64_t address);  // false: it is no block

 private:
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << kBufferShift) - 1;

  uint8_t* FindInHeap(uint64_t address, uint64_t bytes) const;
  uint8_t* FindWritten(uint64_t address) const;
  static uint8_t* FindSlow(const GlobalSlice& slice, uint64_t offset, uint64_t bytes, bool write);
  // The buffer at this address, or the one before it in its slice, or the first one; or nullptr.
  const GlobalBuffer* Nearest(uint64_t address) const;
  GlobalBuffer& BufferAt(uint64_t address);
  std::vector<GlobalSlice> slices_;
  std::vector<uint32_t> free_;  // slices without buffers
  int follows_ = 0;             // how many buffers
  DeviceHeap heap_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_GLOBAL_H_
