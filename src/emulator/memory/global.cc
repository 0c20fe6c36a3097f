#include "emulator/memory/global.h"

#include <algorithm>

namespace tilelang::emulator {

GlobalMemory::GlobalMemory() : buffers_(1) {}  // slice 0 belongs to the windows

uint64_t GlobalMemory::Map(uint8_t* host, uint64_t size, std::string name) {
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(buffers_.size());
    buffers_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  GlobalBuffer& buffer = buffers_[index];
  buffer = GlobalBuffer{};
  buffer.host = host;
  buffer.size = size;
  buffer.name = std::move(name);
  return uint64_t{index} << kBufferShift;
}

uint64_t GlobalMemory::Allocate(uint64_t size, std::string name) {
  std::vector<uint8_t> storage(std::max<uint64_t>(size, 1));
  uint8_t* host = storage.data();
  uint64_t address = Map(host, size, std::move(name));
  buffers_[address >> kBufferShift].owned = std::move(storage);
  AllowRange(address, size, true);
  return address;
}

void GlobalMemory::AllowRange(uint64_t address, uint64_t bytes, bool writable) {
  GlobalBuffer& buffer = buffers_[address >> kBufferShift];
  uint64_t begin = address & ((uint64_t{1} << kBufferShift) - 1);
  buffer.ranges.push_back({begin, begin + bytes, writable});
}

void GlobalMemory::ForbidRange(uint64_t address, uint64_t bytes, bool writable) {
  GlobalBuffer& buffer = buffers_[address >> kBufferShift];
  uint64_t begin = address & ((uint64_t{1} << kBufferShift) - 1);
  const GlobalBuffer::Range range{begin, begin + bytes, writable};
  auto found = std::find(buffer.ranges.begin(), buffer.ranges.end(), range);
  if (found != buffer.ranges.end()) buffer.ranges.erase(found);
}

void GlobalMemory::SetName(uint64_t address, std::string name) {
  buffers_[address >> kBufferShift].name = std::move(name);
}

void GlobalMemory::Unmap(uint64_t address) {
  uint32_t index = static_cast<uint32_t>(address >> kBufferShift);
  buffers_[index] = GlobalBuffer{};
  free_.push_back(index);
}

uint8_t* GlobalMemory::FindSlow(const GlobalBuffer& buffer, uint64_t offset, uint64_t bytes,
                                bool write) {
  // Views of one allocation may adjoin or overlap: grow what is covered until it is enough.
  uint64_t covered = offset;
  bool grew = true;
  while (covered < offset + bytes && grew) {
    grew = false;
    for (const auto& [begin, end, writable] : buffer.ranges) {
      if ((writable || !write) && begin <= covered && covered < end) {
        covered = end;
        grew = true;
      }
    }
  }
  return covered >= offset + bytes ? buffer.host + offset : nullptr;
}

std::string GlobalMemory::NameOf(uint64_t address) const {
  uint64_t index = address >> kBufferShift;
  if (index >= buffers_.size() || !buffers_[index].host) return "";
  return buffers_[index].name;
}

std::string GlobalMemory::Describe(uint64_t address) const {
  uint64_t index = address >> kBufferShift;
  if (index >= buffers_.size() || !buffers_[index].host) {
    return "no buffer of this launch is at this address";
  }
  const GlobalBuffer& buffer = buffers_[index];
  uint64_t offset = address & ((uint64_t{1} << kBufferShift) - 1);
  std::string text = "byte " + std::to_string(offset) + " of buffer '" + buffer.name + "'";
  for (const auto& [begin, end, writable] : buffer.ranges) {
    if (begin == 0 && buffer.ranges.size() == 1)
      return text + ", which has " + std::to_string(end) + " bytes";
    text += ", of which bytes " + std::to_string(begin) + " to " + std::to_string(end - 1) +
            " were passed";
  }
  return text;
}

}  // namespace tilelang::emulator
