#include "emulator/timing/recorder.h"

#include <new>
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

Recorder::Account::Account(Recorder* recorder, int32_t track, bool engine)
    : sums_(engine ? nullptr
                   : static_cast<int64_t*>(
                         std::calloc(kReasons * recorder->instructions_, sizeof(int64_t))),
            &std::free),
      instructions_(recorder->instructions_),
      recorder_(recorder),
      track_(track) {
  if (!engine && !sums_) throw std::bad_alloc();
}

int32_t Recorder::Account::AddSlice(uint32_t instruction, Cycle begin, Cycle end, Reason reason) {
  SliceList& slices = recorder_->slices_;
  if (slices.size() >= kMaxSlices) return -1;
  const int32_t before = std::exchange(last_, static_cast<int32_t>(slices.size()));
  slice_ = slices.Add();
  slice_->begin = begin;
  slice_->end = end;
  slice_->track = track_;
  slice_->instruction = static_cast<int32_t>(instruction);
  slice_->before = before;
  slice_->reason = reason;
  line_ = recorder_->lines_[instruction];
  return last_;
}

int32_t Recorder::AddTrack(Track track) {
  const auto number = static_cast<int32_t>(tracks_.size());
  accounts_.push_back(Account(this, number, track.engine));
  tracks_.push_back(std::move(track));
  return number;
}

int32_t Recorder::Engine(int32_t track, uint32_t instruction, Cycle begin, Cycle end) {
  return keeps_ ? AccountOf(track).AddSlice(instruction, begin, end, Reason::kBusy) : -1;
}

void Recorder::Flow(int32_t from, int32_t to) {
  if (from >= 0 && to >= 0 && from != to) flows_.push_back({from, to});
}

std::vector<Recorder::Stall> Recorder::Stalls() const {
  std::vector<Stall> stalls;
  for (const Account& account : accounts_) {
    const int64_t* sums = account.sums_.get();
    for (size_t pc = 0; sums && pc < instructions_; ++pc) {
      for (size_t reason = 0; reason < kReasons; ++reason) {
        const int64_t parts = sums[reason * instructions_ + pc];
        if (parts == 0) continue;
        stalls.push_back({account.track_, static_cast<int32_t>(pc), static_cast<Reason>(reason),
                          Cycle::OfParts(parts).cycles()});
      }
    }
  }
  return stalls;
}

}  // namespace tilelang::emulator
