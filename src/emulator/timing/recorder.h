// Keeps the data of a timed launch for its report: slices of warps and engines, which slice
// released which, and sums by warp, reason and instruction.
#ifndef TILELANG_EMULATOR_TIMING_RECORDER_H_
#define TILELANG_EMULATOR_TIMING_RECORDER_H_

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/core/timing.h"
#include "emulator/timing/slice_list.h"

namespace tilelang::emulator {

const char* ReasonName(Reason reason);

struct Track {
  bool engine = false;
  std::string name;
  int64_t cta = -1;
  int warp = -1, sm = 0;
};

struct FlowEdge {
  int32_t from = -1, to = -1;
};

struct PathStep {
  int32_t track = 0, instruction = -1;
  Cycle begin = 0, end = 0;
  Reason reason = Reason::kIssue;
};

class Recorder {
 public:
  // `lines` has a number for each instruction, equal for instructions of one source line.
  Recorder(std::vector<int> lines, bool keeps);

  // Accounts for the time of a warp, on one track.
  class Account {
   public:
    // The warp was at an instruction. Returns the slice, -1 if none are kept.
    int32_t Add(uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
      sums_.get()[static_cast<size_t>(reason) * instructions_ + instruction] +=
          (end - begin).parts();
      return recorder_->keeps_ ? Keep(instruction, begin, end, reason) : -1;
    }
    // The last slice; -1 if there is none.
    int32_t last() const { return last_; }

   private:
    friend class Recorder;
    Account(Recorder* recorder, int32_t track, bool engine);
    // Makes the last slice longer, or adds one.
    int32_t Keep(uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
      if (slice_ && slice_->end == begin && slice_->reason == reason &&
          line_ == recorder_->lines_[instruction]) {
        slice_->end = end;
        return last_;
      }
      return AddSlice(instruction, begin, end, reason);
    }
    int32_t AddSlice(uint32_t instruction, Cycle begin, Cycle end, Reason reason);

    // Parts of a cycle by reason and instruction. The sums of the few usual reasons lie together,
    // and most other sums are never touched. Engines have no sums.
    std::unique_ptr<int64_t, decltype(&std::free)> sums_;
    size_t instructions_;
    Recorder* recorder_;
    int32_t track_;
    int32_t last_ = -1;
    int line_ = 0;  // of the last slice
    Slice* slice_ = nullptr;
  };

  int32_t AddTrack(Track track);
  // Stays where it is.
  Account& AccountOf(int32_t track) { return accounts_[static_cast<size_t>(track)]; }
  int32_t Engine(int32_t track, uint32_t instruction, Cycle begin, Cycle end);
  void Flow(int32_t from, int32_t to);

  const std::vector<Track>& tracks() const { return tracks_; }
  // The slices leave the recorder: the last thing to ask for.
  SliceList TakeSlices() { return std::move(slices_); }
  const std::vector<FlowEdge>& flows() const { return flows_; }
  struct Stall {
    int32_t track = 0, instruction = 0;
    Reason reason = Reason::kIssue;
    double cycles = 0;
  };
  std::vector<Stall> Stalls() const;
  // Returns the path of waits from the end of the last slice back to the start.
  std::vector<PathStep> CriticalPath() const;

 private:
  // More are not kept.
  static constexpr size_t kMaxSlices = 4'000'000;

  std::vector<int> lines_;
  size_t instructions_;
  bool keeps_;
  std::vector<Track> tracks_;
  std::deque<Account> accounts_;
  SliceList slices_;
  std::vector<FlowEdge> flows_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_RECORDER_H_
