// What a timed launch keeps for its report: slices of warps and engines, what released whom, and
// sums by warp, reason and instruction.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "emulator/core/timing.h"

namespace tilelang::emulator {

// Why a warp does not go on, or what an engine does. In the order of kReasonNames.
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
const char* ReasonName(Reason reason);

struct Track {
  bool engine = false;
  std::string name;
  int64_t cta = -1;
  int warp = -1, sm = 0;
};

struct Slice {
  int32_t track = 0;
  int32_t instruction = -1;
  Cycle begin = 0, end = 0;
  Reason reason = Reason::kIssue;
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
  int32_t Warp(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason);
  int32_t Engine(int32_t track, uint32_t instruction, Cycle begin, Cycle end);
  void Flow(int32_t from, int32_t to);
  // The last slice of a track; -1 if there is none.
  int32_t Last(int32_t track) const { return last_[static_cast<size_t>(track)]; }

  const std::vector<Track>& tracks() const { return tracks_; }
  // The slices leave the recorder: the last thing to ask for.
  std::deque<Slice> TakeSlices() { return std::move(slices_); }
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
  int32_t Add(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason);

  std::vector<int> lines_;
  bool keeps_;
  std::vector<Track> tracks_;
  std::vector<int32_t> last_;
  std::deque<Slice> slices_;
  std::vector<FlowEdge> flows_;
  // By track and instruction, made when first needed.
  std::vector<std::vector<std::array<float, kReasons>>> by_track_;
};

}  // namespace tilelang::emulator
