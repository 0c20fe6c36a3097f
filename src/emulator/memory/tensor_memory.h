// Tensor memory of one CTA: 128 lanes x 512 columns of 32-bit cells, and its allocator.
#ifndef TILELANG_EMULATOR_MEMORY_TENSOR_MEMORY_H_
#define TILELANG_EMULATOR_MEMORY_TENSOR_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tilelang::emulator {

// A tensor-memory address: lane in the upper half, column in the lower.
struct TmemAddress {
  explicit constexpr TmemAddress(uint32_t raw) : raw(raw) {}
  constexpr int lane() const { return static_cast<int>(raw >> 16); }
  constexpr int column() const { return static_cast<int>(raw & 0xFFFF); }
  uint32_t raw;
};

std::string DescribeTmem(int lane, int column);

// Misuse throws EmulatorError of kind "tmem".
class TensorMemory {
 public:
  static constexpr int kLanes = 128;
  static constexpr int kColumns = 512;
  static constexpr int kChunk = 32;  // columns of the unit of allocation
  static constexpr int kChunks = kColumns / kChunk;
  // Words from one lane to the next on the host: not a power of two, because accesses walk lanes
  // and would otherwise fall into a few sets of the host's cache.
  static constexpr int kStride = kColumns + 16;

  TensorMemory();

  // First column of a new block of `columns` (a power of two, 32..512; not more than any earlier
  // allocation of this CTA asked for), or nothing while no such block is free.
  std::optional<int> Allocate(int64_t columns);
  void CheckAllocation(int64_t columns) const;
  // Frees one allocation. The address and the size must belong to it.
  void Deallocate(TmemAddress address, int64_t columns);
  void CheckDeallocation(TmemAddress address, int64_t columns) const;
  void Relinquish() { relinquished_ = true; }
  bool HasAllocations() const;
  // Returns the allocated columns, for example "columns 0..127, columns 256..287".
  std::string DescribeAllocations() const;

  // Throws unless the rectangle of cells lies in allocated columns and existing lanes.
  void CheckRange(const char* what, int lane, int lanes, int column, int columns) const;

  uint32_t& Cell(int lane, int column) { return cells_[lane * kStride + column]; }
  uint32_t* Row(int lane) { return &cells_[lane * kStride]; }
  bool IsWritten(int lane, int column) const { return written_[lane * kStride + column] != 0; }
  void MarkWritten(int lane, int column) { written_[lane * kStride + column] = kWritten; }
  // Written, but with the value of a register that nothing has written.
  bool IsUndefined(int lane, int column) const {
    return written_[lane * kStride + column] == kUndefined;
  }
  void MarkUndefined(int index) { written_[index] = kUndefined; }
  void Store(int lane, int column, uint32_t value) { StoreAt(lane * kStride + column, value); }
  // The same by linear index, lane * kStride + column.
  uint32_t At(int index) const { return cells_[index]; }
  bool WasWritten(int index) const { return written_[index] != 0; }
  void StoreAt(int index, uint32_t value) {
    cells_[index] = value;
    written_[index] = kWritten;
  }

 private:
  static constexpr uint8_t kWritten = 1, kUndefined = 2;  // 0: not written
  std::unique_ptr<uint32_t[]> cells_;
  std::unique_ptr<uint8_t[]> written_;
  // The owner of each chunk: 0 if it is free, otherwise the first chunk of its allocation plus one.
  std::array<uint8_t, kChunks> owner_{};
  std::array<uint8_t, kChunks> size_{};  // at the first chunk: chunks of the allocation
  int64_t largest_allowed_ = kColumns;
  bool relinquished_ = false;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_TENSOR_MEMORY_H_
