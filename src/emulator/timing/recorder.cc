#include "emulator/timing/recorder.h"

#include <algorithm>
#include <utility>

namespace tilelang::emulator {

const char* ReasonName(Reason reason) {
  static constexpr const char* kNames[kReasons] = {"issue",
                                                   "dependency",
                                                   "mbarrier: TMA",
                                                   "mbarrier: tensor",
                                                   "mbarrier: threads",
                                                   "named barrier",
                                                   "tensor pipe",
                                                   "memory",
                                                   "not selected",
                                                   "pipe",
                                                   "async group",
                                                   "tensor memory",
                                                   "branch",
                                                   "done",
                                                   "busy"};
  return kNames[static_cast<int>(reason)];
}

Recorder::Recorder(std::vector<int> lines, bool keeps) : lines_(std::move(lines)), keeps_(keeps) {}

int32_t Recorder::AddTrack(Track track) {
  tracks_.push_back(std::move(track));
  last_.push_back(-1);
  by_track_.emplace_back();
  return static_cast<int32_t>(tracks_.size()) - 1;
}

int32_t Recorder::Add(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
  if (!keeps_ || slices_.size() >= kMaxSlices) return -1;
  slices_.push_back({track, static_cast<int32_t>(instruction), begin, end, reason});
  return last_[static_cast<size_t>(track)] = static_cast<int32_t>(slices_.size()) - 1;
}

int32_t Recorder::Warp(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
  auto& sums = by_track_[static_cast<size_t>(track)];
  if (sums.empty()) sums.resize(lines_.size());
  sums[instruction][static_cast<size_t>(reason)] += static_cast<float>(end - begin);
  const int32_t last = last_[static_cast<size_t>(track)];
  if (last >= 0) {
    Slice& slice = slices_[static_cast<size_t>(last)];
    if (slice.reason == reason && slice.end == begin &&
        lines_[static_cast<size_t>(slice.instruction)] == lines_[instruction]) {
      slice.end = end;
      return last;
    }
  }
  return Add(track, instruction, begin, end, reason);
}

int32_t Recorder::Engine(int32_t track, uint32_t instruction, Cycle begin, Cycle end) {
  return Add(track, instruction, begin, end, Reason::kBusy);
}

void Recorder::Flow(int32_t from, int32_t to) {
  if (from >= 0 && to >= 0 && from != to) flows_.push_back({from, to});
}

std::vector<Recorder::Stall> Recorder::Stalls() const {
  std::vector<Stall> stalls;
  for (size_t track = 0; track < by_track_.size(); ++track) {
    const auto& sums = by_track_[track];
    for (size_t pc = 0; pc < sums.size(); ++pc) {
      for (int reason = 0; reason < kReasons; ++reason) {
        const float cycles = sums[pc][static_cast<size_t>(reason)];
        if (cycles == 0) continue;
        stalls.push_back({static_cast<int32_t>(track), static_cast<int32_t>(pc),
                          static_cast<Reason>(reason), cycles});
      }
    }
  }
  return stalls;
}

}  // namespace tilelang::emulator
