#include "emulator/memory/tensor_memory.h"

#include <algorithm>
#include <bit>

#include "emulator/base/error.h"

namespace tilelang::emulator {
namespace {

// The value of a cell before anything was written: a signalling NaN that is easy to recognise.
constexpr uint32_t kPoison = 0x7FBADBAD;

[[noreturn]] void Misuse(const std::string& message) { throw EmulatorError("tmem", message); }

void CheckColumnCount(const char* what, int64_t columns) {
  if (columns < TensorMemory::kChunk || columns > TensorMemory::kColumns ||
      !std::has_single_bit(static_cast<uint64_t>(columns))) {
    Misuse(std::string(what) + " of " + std::to_string(columns) +
           " columns: the count must be a power of two in 32..512");
  }
}

}  // namespace

std::string DescribeTmem(int lane, int column) {
  return "tmem[lane " + std::to_string(lane) + ", column " + std::to_string(column) + "]";
}

TensorMemory::TensorMemory()
    : cells_(new uint32_t[kLanes * kStride]), written_(new uint8_t[kLanes * kStride]()) {
  std::fill_n(cells_.get(), kLanes * kStride, kPoison);
}

void TensorMemory::CheckAllocation(int64_t columns) const {
  CheckColumnCount("tcgen05.alloc", columns);
  if (relinquished_) Misuse("tcgen05.alloc after tcgen05.relinquish_alloc_permit");
  if (columns > largest_allowed_) {
    Misuse("tcgen05.alloc of " + std::to_string(columns) + " columns after one of " +
           std::to_string(largest_allowed_) + ": later allocations must not be larger");
  }
}

std::optional<int> TensorMemory::Allocate(int64_t columns) {
  CheckAllocation(columns);
  const int chunks = static_cast<int>(columns) / kChunk;
  for (int first = 0; first + chunks <= kChunks; first += chunks) {
    const auto begin = owner_.begin() + first;
    if (std::any_of(begin, begin + chunks, [](uint8_t owner) { return owner != 0; })) continue;
    std::fill(begin, begin + chunks, static_cast<uint8_t>(first + 1));
    size_[first] = static_cast<uint8_t>(chunks);
    largest_allowed_ = columns;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::fill_n(&written_[lane * kStride + first * kChunk], columns, uint8_t{0});
    }
    return first * kChunk;
  }
  return std::nullopt;
}

void TensorMemory::CheckDeallocation(TmemAddress address, int64_t columns) const {
  CheckColumnCount("tcgen05.dealloc", columns);
  const int first = address.column() / kChunk;
  const bool is_start = address.lane() == 0 && address.column() % kChunk == 0 && first < kChunks &&
                        owner_[first] == first + 1;
  if (!is_start || size_[first] * kChunk != columns) {
    Misuse("tcgen05.dealloc of " + std::to_string(columns) + " columns at " +
           DescribeTmem(address.lane(), address.column()) +
           " matches no allocation; allocated: " + DescribeAllocations());
  }
}

void TensorMemory::Deallocate(TmemAddress address, int64_t columns) {
  CheckDeallocation(address, columns);
  const int first = address.column() / kChunk;
  std::fill_n(owner_.begin() + first, size_[first], uint8_t{0});
  size_[first] = 0;
}

bool TensorMemory::HasAllocations() const {
  return std::any_of(owner_.begin(), owner_.end(), [](uint8_t owner) { return owner != 0; });
}

std::string TensorMemory::DescribeAllocations() const {
  std::string text;
  for (int first = 0; first < kChunks; ++first) {
    if (size_[first] == 0) continue;
    if (!text.empty()) text += ", ";
    text += "columns " + std::to_string(first * kChunk) + ".." +
            std::to_string((first + size_[first]) * kChunk - 1);
  }
  return text.empty() ? "nothing" : text;
}

void TensorMemory::CheckRange(const char* what, int lane, int lanes, int column,
                              int columns) const {
  const auto place = [&] {
    return std::string(what) + " of lanes " + std::to_string(lane) + ".." +
           std::to_string(lane + lanes - 1) + ", columns " + std::to_string(column) + ".." +
           std::to_string(column + columns - 1);
  };
  if (lane < 0 || lane + lanes > kLanes || column < 0 || column + columns > kColumns) {
    Misuse(place() + " leaves tensor memory (128 lanes x 512 columns)");
  }
  for (int chunk = column / kChunk; chunk <= (column + columns - 1) / kChunk; ++chunk) {
    if (owner_[chunk] == 0) {
      Misuse(place() + ": column " + std::to_string(std::max(column, chunk * kChunk)) +
             " is not allocated; allocated: " + DescribeAllocations());
    }
  }
}

}  // namespace tilelang::emulator
