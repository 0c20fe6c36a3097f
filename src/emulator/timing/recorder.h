// What a timed launch keeps for its report: slices of warps and engines, what released whom, and
// sums by warp, reason and instruction.
#pragma once

#include <cstdint>
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
  // `lines`: a number for each instruction, equal for those of one source line.
  Recorder(std::vector<int> lines, bool keeps);

  int32_t AddTrack(Track track);
  // The warp of `track` was at an instruction. Returns the slice, -1 if none are kept.
  int32_t Warp(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
    State& state = states_[static_cast<size_t>(track)];
    state.sums[IndexOf(instruction, reason)] += static_cast<float>(end - begin);
    if (!keeps_) return -1;
    const int line = lines_[instruction];
    if (state.slice && state.slice->end == begin && state.slice->reason == reason &&
        state.line == line) {
      state.slice->end = end;
      return state.last;
    }
    return Add(track, instruction, begin, end, reason);
  }
  int32_t Engine(int32_t track, uint32_t instruction, Cycle begin, Cycle end);
  void Flow(int32_t from, int32_t to);
  // The last slice of a track; -1 if there is none.
  int32_t Last(int32_t track) const { return states_[static_cast<size_t>(track)].last; }

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
  // What each was waiting for, from the end of the last slice back to the start.
  std::vector<PathStep> CriticalPath() const;

 private:
  // More are not kept.
  static constexpr size_t kMaxSlices = 4'000'000;
  struct State {  // of a track
    // By reason and instruction: those of the few usual reasons lie together. None of engines.
    std::unique_ptr<float[]> sums;
    int32_t last = -1;  // slice
    int line = 0;       // of that
    Slice* slice = nullptr;
  };
  size_t IndexOf(size_t instruction, Reason reason) const {
    return static_cast<size_t>(reason) * instructions_ + instruction;
  }
  int32_t Add(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason);

  std::vector<int> lines_;
  size_t instructions_;
  bool keeps_;
  std::vector<Track> tracks_;
  std::vector<State> states_;
  SliceList slices_;
  std::vector<FlowEdge> flows_;
};

}  // namespace tilelang::emulator
