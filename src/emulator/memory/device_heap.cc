#include "emulator/memory/device_heap.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace tilelang::emulator {
namespace {

constexpr uint64_t kUnit = 16;  // of the arena

uint64_t Units(uint64_t bytes) {
  return (std::max<uint64_t>(bytes, 1) + kUnit - 1) / kUnit * kUnit;
}

// The first gap of `bytes` between the used parts from `begin` on; false if there is none.
bool FindGap(const std::map<uint64_t, uint64_t>& used, uint64_t begin, uint64_t bytes,
             uint64_t* place) {
  *place = begin;
  for (auto part = used.lower_bound(begin); part != used.end(); ++part) {
    if (part->first - *place >= bytes) return true;
    *place = part->second;
  }
  return DeviceHeap::kBytes - *place >= bytes;
}

}  // namespace

uint64_t DeviceHeap::Allocate(uint64_t bytes) {
  const uint64_t units = Units(bytes);
  if (bytes > kBytes || units > kBytes) return 0;
  const std::lock_guard<std::shared_mutex> lock(mutex_);
  if (!arena_.data()) arena_ = ZeroedBytes(kBytes);
  uint64_t place = 0;
  if (!FindGap(used_, next_place_, units, &place) && !FindGap(used_, 0, units, &place)) return 0;
  used_[place] = next_place_ = place + units;
  const uint64_t offset = next_offset_;
  next_offset_ += (units / kAlign + 2) * kAlign;
  blocks_[offset] = {bytes, place};
  std::memset(arena_.data() + place, 0xFF, units);
  return offset;
}

bool DeviceHeap::Free(uint64_t offset) {
  const std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) return false;
  used_.erase(block->second.place);
  blocks_.erase(block);
  // The next search begins between two parts or at the start: never within one.
  next_place_ = 0;
  return true;
}

DeviceHeap::Blocks::const_iterator DeviceHeap::Before(uint64_t offset) const {
  const auto after = blocks_.upper_bound(offset);
  return after == blocks_.begin() ? blocks_.end() : std::prev(after);
}

uint8_t* DeviceHeap::Find(uint64_t offset, uint64_t bytes) const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto block = Before(offset);
  if (block == blocks_.end()) return nullptr;
  const uint64_t within = offset - block->first;
  if (within > block->second.bytes || bytes > block->second.bytes - within) return nullptr;
  return arena_.data() + block->second.place + within;
}

std::string DeviceHeap::Describe(uint64_t offset) const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto block = Before(offset);
  if (block == blocks_.end()) return "a block from malloc that has been freed";
  const uint64_t within = offset - block->first;
  if (within >= Units(block->second.bytes) + kAlign)
    return "a block from malloc that has been freed";
  return "byte " + std::to_string(within) + " of a block from malloc of " +
         std::to_string(block->second.bytes) + " bytes";
}

}  // namespace tilelang::emulator
