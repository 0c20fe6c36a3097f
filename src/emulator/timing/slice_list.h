// The timeline of a launch.
#ifndef TILELANG_EMULATOR_TIMING_SLICE_LIST_H_
#define TILELANG_EMULATOR_TIMING_SLICE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/core/timing.h"

namespace tilelang::emulator {

// The reason why a warp waits, or the work of an engine, in the order of kReasonNames.
enum class Reason : uint8_t {
  kIssue,
  kDependency,
  kBarrierTma,
  kBarrierTensor,
  kBarrierThreads,
  kNamedBarrier,
  kTensorPipe,
  kMemory,
  kNotSelected,
  kPipe,
  kAsyncGroup,
  kTensorMemory,
  kBranch,
  kDone,
  kBusy,
};
constexpr int kReasons = static_cast<int>(Reason::kBusy) + 1;

struct Slice {
  Cycle begin = 0, end = 0;
  int32_t track = 0;
  int32_t instruction = -1;
  int32_t before = -1;  // the last slice of the track
  Reason reason = Reason::kIssue;
};

// Slices in pieces that stay where they are, so that growing copies nothing.
class SliceList {
 public:
  size_t size() const { return size_; }
  Slice& operator[](size_t i) { return pieces_[i / kPiece][i % kPiece]; }
  const Slice& operator[](size_t i) const { return pieces_[i / kPiece][i % kPiece]; }
  // One more, to be written where it stays: a copy of what has just been written is slow.
  Slice* Add() {
    if (size_++ % kPiece == 0) pieces_.emplace_back().reserve(kPiece);
    return &pieces_.back().emplace_back();
  }
  template <typename F>
  void ForEach(F&& body) const {
    for (const auto& piece : pieces_) {
      for (const Slice& slice : piece) body(slice);
    }
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 16;
  std::vector<std::vector<Slice>> pieces_;
  size_t size_ = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_SLICE_LIST_H_
