#include "emulator/timing/recorder.h"

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

Recorder::Recorder(std::vector<int> lines, bool keeps)
    : lines_(std::move(lines)), instructions_(lines_.size()), keeps_(keeps) {}

int32_t Recorder::AddTrack(Track track) {
  State& state = states_.emplace_back();
  if (!track.engine) state.sums = std::make_unique<float[]>(kReasons * instructions_);
  tracks_.push_back(std::move(track));
  return static_cast<int32_t>(tracks_.size()) - 1;
}

int32_t Recorder::Add(int32_t track, uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
  if (!keeps_ || slices_.size() >= kMaxSlices) return -1;
  State& state = states_[static_cast<size_t>(track)];
  const int32_t before = std::exchange(state.last, static_cast<int32_t>(slices_.size()));
  state.slice = slices_.Add({begin, end, track, static_cast<int32_t>(instruction), before, reason});
  state.line = lines_[instruction];
  return state.last;
}

int32_t Recorder::Engine(int32_t track, uint32_t instruction, Cycle begin, Cycle end) {
  return Add(track, instruction, begin, end, Reason::kBusy);
}

void Recorder::Flow(int32_t from, int32_t to) {
  if (from >= 0 && to >= 0 && from != to) flows_.push_back({from, to});
}

std::vector<Recorder::Stall> Recorder::Stalls() const {
  std::vector<Stall> stalls;
  for (size_t track = 0; track < states_.size(); ++track) {
    const auto& sums = states_[track].sums;
    for (size_t pc = 0; sums && pc < instructions_; ++pc) {
      for (int reason = 0; reason < kReasons; ++reason) {
        const float cycles = sums[IndexOf(pc, static_cast<Reason>(reason))];
        if (cycles == 0) continue;
        stalls.push_back({static_cast<int32_t>(track), static_cast<int32_t>(pc),
                          static_cast<Reason>(reason), cycles});
      }
    }
  }
  return stalls;
}

}  // namespace tilelang::emulator
