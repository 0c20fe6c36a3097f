#include "emulator/memory/global.h"

#include <algorithm>
#include <new>

#include "emulator/base/error.h"
#include "emulator/memory/hex.h"

namespace tilelang::emulator {

namespace {

constexpr uint64_t kMaxBuffer = uint64_t{1} << kBufferShift;

void CheckSize(uint64_t size, const std::string& name) {
  if (size <= kMaxBuffer) return;
  throw EmulatorError("too-large", "'" + name + "' of " + std::to_string(size) +
                                       " bytes: a buffer has at most " +
                                       std::to_string(kMaxBuffer) + " bytes here");
}

ZeroedBytes AllocateBytes(uint64_t size, const std::string& name) {
  try {
    return ZeroedBytes(std::max<uint64_t>(size, 1));
  } catch (const std::bad_alloc&) {
    throw EmulatorError("out-of-memory", "the host has no room for '" + name + "' of " +
                                             std::to_string(size) + " bytes");
  }
}

void CheckPlace(uint64_t address, uint64_t size, const std::string& name) {
  // Slice 0 is legal below the windows, where the heap of a host may be.
  bool low = address >= kLeastAddress && size <= kSharedWindow && address <= kSharedWindow - size;
  if (low || (address >= kMaxBuffer && address < kAddressEnd &&
              (address >> kBufferShift) == ((address + size - 1) >> kBufferShift))) {
    return;
  }
  throw EmulatorError("address", "'" + name + "' of " + std::to_string(size) + " bytes at " +
                                     Hex(address) + ": chosen addresses are from " +
                                     Hex(kLeastAddress) + " to " + Hex(kSharedWindow) +
                                     " and from " + Hex(kMaxBuffer) + " to " + Hex(kAddressEnd) +
                                     ", and a buffer does not cross a multiple of " +
                                     Hex(kMaxBuffer));
}

}  // namespace

GlobalMemory::GlobalMemory() : slices_(1) {}  // slice 0 belongs to the windows

uint64_t GlobalMemory::Map(uint8_t* host, uint64_t size, std::string name) {
  CheckSize(size, name);
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slices_.size()));
    slices_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  GlobalSlice& slice = slices_[index];
  slice.buffers.emplace_back();
  slice.buffers[0].end = size;
  slice.buffers[0].host = host;
  slice.buffers[0].name = std::move(name);
  return uint64_t{index} << kBufferShift;
}

void GlobalMemory::MapAt(uint64_t address, uint8_t* host, uint64_t size, std::string name) {
  CheckPlace(address, size, name);
  const uint64_t index = address >> kBufferShift;
  while (slices_.size() <= index) {
    free_.insert(free_.begin(), static_cast<uint32_t>(slices_.size()));
    slices_.emplace_back();
  }
  std::vector<GlobalBuffer>& buffers = slices_[index].buffers;
  GlobalBuffer buffer;
  buffer.begin = address & kOffsetMask;
  buffer.end = buffer.begin + size;
  buffer.host = host;
  auto next = buffers.begin();
  for (; next != buffers.end() && next->begin < buffer.end; ++next) {
    if (next->end <= buffer.begin) continue;
    throw EmulatorError("address", "'" + name + "' of " + std::to_string(size) + " bytes at " +
                                       Hex(address) + ": '" + next->name + "' lies there, from " +
                                       Hex((index << kBufferShift) + next->begin) + " to " +
                                       Hex((index << kBufferShift) + next->end));
  }
  buffer.name = std::move(name);
  buffers.insert(next, std::move(buffer));
  std::erase(free_, static_cast<uint32_t>(index));
}

uint64_t GlobalMemory::Allocate(uint64_t size, std::string name, uint64_t address) {
  CheckSize(size, name);
  ZeroedBytes storage = AllocateBytes(size, name);
  if (address == 0) {
    address = Map(storage.data(), size, std::move(name));
  } else {
    MapAt(address, storage.data(), size, std::move(name));
  }
  BufferAt(address).owned = std::move(storage);
  AllowRange(address, size, true);
  return address;
}

GlobalBuffer& GlobalMemory::BufferAt(uint64_t address) {
  return const_cast<GlobalBuffer&>(*Nearest(address));
}

const GlobalBuffer* GlobalMemory::Nearest(uint64_t address) const {
  const uint64_t index = address >> kBufferShift;
  if (index >= slices_.size() || slices_[index].buffers.empty()) return nullptr;
  const std::vector<GlobalBuffer>& buffers = slices_[index].buffers;
  const auto after = std::upper_bound(
      buffers.begin(), buffers.end(), address & kOffsetMask,
      [](uint64_t offset, const GlobalBuffer& buffer) { return offset < buffer.begin; });
  return after == buffers.begin() ? &buffers.front() : &*(after - 1);
}

void GlobalMemory::AllowRange(uint64_t address, uint64_t bytes, bool writable) {
  const GlobalBuffer& buffer = BufferAt(address);
  const uint64_t begin = address & kOffsetMask;
  slices_[address >> kBufferShift].ranges.push_back(
      {begin, begin + bytes, writable, buffer.host + (begin - buffer.begin)});
}

void GlobalMemory::ForbidRange(uint64_t address, uint64_t bytes, bool writable) {
  const GlobalBuffer& buffer = BufferAt(address);
  const uint64_t begin = address & kOffsetMask;
  auto& ranges = slices_[address >> kBufferShift].ranges;
  const GlobalSlice::Range range{begin, begin + bytes, writable,
                                 buffer.host + (begin - buffer.begin)};
  const auto found = std::find(ranges.begin(), ranges.end(), range);
  if (found != ranges.end()) ranges.erase(found);
}

void GlobalMemory::Unmap(uint64_t address) {
  const uint64_t index = address >> kBufferShift;
  GlobalSlice& slice = slices_[index];
  const GlobalBuffer& buffer = BufferAt(address);
  std::erase_if(slice.ranges, [&](const GlobalSlice::Range& range) {
    return range.begin >= buffer.begin && range.end <= buffer.end;
  });
  if (buffer.written) --follows_;
  slice.buffers.erase(slice.buffers.begin() + (&buffer - slice.buffers.data()));
  // Slice 0 belongs to the windows.
  if (slice.buffers.empty() && index != 0) free_.push_back(static_cast<uint32_t>(index));
}

void GlobalMemory::Follow(uint64_t address, uint8_t* written) {
  GlobalBuffer& buffer = BufferAt(address);
  if (!buffer.written) ++follows_;
  buffer.written = written;
}

uint8_t* GlobalMemory::FindWritten(uint64_t address) const {
  const GlobalBuffer* buffer = address < kHeapBase ? Nearest(address) : nullptr;
  const uint64_t offset = address & kOffsetMask;
  if (!buffer || !buffer->written || offset < buffer->begin || offset >= buffer->end) {
    return nullptr;
  }
  return buffer->written + (offset - buffer->begin);
}

std::vector<HostRange> GlobalMemory::HostRanges() const {
  std::vector<HostRange> ranges;
  for (const GlobalSlice& slice : slices_) {
    for (const GlobalSlice::Range& range : slice.ranges) {
      const uintptr_t begin = reinterpret_cast<uintptr_t>(range.host);
      ranges.push_back({begin, begin + (range.end - range.begin)});
    }
  }
  return ranges;
}

uint8_t* GlobalMemory::FindSlow(const GlobalSlice& slice, uint64_t offset, uint64_t bytes,
                                bool write) {
  // Views of one buffer may adjoin or overlap: grow what is covered until it is enough.
  uint64_t covered = offset;
  uint8_t* host = nullptr;  // of `offset`
  bool grew = true;
  while (covered < offset + bytes && grew) {
    grew = false;
    for (const GlobalSlice::Range& range : slice.ranges) {
      if ((write && !range.writable) || range.begin > covered || covered >= range.end) continue;
      uint8_t* here = range.host - range.begin + offset;
      if (host && host != here) continue;  // beside it, but elsewhere on the host
      host = here;
      covered = range.end;
      grew = true;
    }
  }
  return covered >= offset + bytes ? host : nullptr;
}

uint64_t GlobalMemory::AllocateOnHeap(uint64_t bytes) {
  const uint64_t offset = heap_.Allocate(bytes);
  return offset ? kHeapBase + offset : 0;
}

bool GlobalMemory::FreeOnHeap(uint64_t address) {
  return address > kHeapBase && heap_.Free(address - kHeapBase);
}

uint8_t* GlobalMemory::FindInHeap(uint64_t address, uint64_t bytes) const {
  return address > kHeapBase ? heap_.Find(address - kHeapBase, bytes) : nullptr;
}

std::string GlobalMemory::NameOf(uint64_t address) const {
  if (address > kHeapBase) return "malloc";
  const GlobalBuffer* buffer = Nearest(address);
  return buffer ? buffer->name : "";
}

uint64_t GlobalMemory::SizeAt(uint64_t address) const {
  const GlobalBuffer* buffer = Nearest(address);
  return buffer ? buffer->end - buffer->begin : 0;
}

std::string GlobalMemory::Describe(uint64_t address) const {
  const GlobalBuffer* buffer = Nearest(address);
  constexpr uint64_t kNearNull = 1 << 20;
  if (!buffer && address > kHeapBase) return heap_.Describe(address - kHeapBase);
  if (!buffer && address < kNearNull) {
    return "its base is a null pointer: is an argument None?";
  }
  if (!buffer) {
    return "no buffer of this launch is at this address; if the kernel reads addresses from "
           "tensors, name their memory with tilelang.emulator.reachable";
  }
  const int64_t offset = static_cast<int64_t>((address & kOffsetMask) - buffer->begin);
  std::string text = "byte " + std::to_string(offset) + " of buffer '" + buffer->name + "'";
  std::vector<GlobalSlice::Range> parts = slices_[address >> kBufferShift].ranges;
  std::erase_if(parts, [&](const GlobalSlice::Range& range) {
    return range.begin < buffer->begin || range.end > buffer->end;
  });
  if (parts.size() == 1 && parts[0].begin == buffer->begin) {
    return text + ", which has " + std::to_string(parts[0].end - parts[0].begin) + " bytes";
  }
  for (const GlobalSlice::Range& range : parts) {
    text += ", of which bytes " + std::to_string(range.begin - buffer->begin) + " to " +
            std::to_string(range.end - buffer->begin - 1) + " were passed";
  }
  return text;
}

}  // namespace tilelang::emulator
