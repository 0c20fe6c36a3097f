#include <algorithm>

#include "emulator/timing/recorder.h"

namespace tilelang::emulator {
namespace {

// Walks from slice to slice, back in time.
class Walk {
 public:
  Walk(const std::deque<Slice>& slices, const std::vector<FlowEdge>& flows, size_t tracks)
      : slices_(slices), source_(slices.size(), -1), before_(slices.size(), -1) {
    for (const FlowEdge& flow : flows) {
      int32_t& source = source_[static_cast<size_t>(flow.to)];
      // Of several the last one released it.
      if (source < 0 || At(source).end < At(flow.from).end) source = flow.from;
    }
    std::vector<int32_t> last(tracks, -1);
    for (size_t i = 0; i < slices.size(); ++i) {
      int32_t& previous = last[static_cast<size_t>(slices[i].track)];
      before_[i] = previous;
      previous = static_cast<int32_t>(i);
    }
  }

  std::vector<PathStep> Run(int32_t slice) {
    Cycle time = At(slice).end;
    while (slice >= 0 && time > 0) {
      const Slice& here = At(slice);
      const int32_t source = source_[static_cast<size_t>(slice)];
      // A release ends a wait; what a warp did before it is not what the wait was for.
      const Cycle from = source >= 0 ? std::clamp(At(source).end, here.begin, time) : here.begin;
      const Cycle begin =
          Jumps(here, source) && At(source).end < here.begin ? At(source).end : from;
      Step(here, std::min(begin, time), time);
      time = std::min(begin, time);
      slice = Jumps(here, source) ? source : before_[static_cast<size_t>(slice)];
    }
    std::reverse(steps_.begin(), steps_.end());
    return std::move(steps_);
  }

 private:
  const Slice& At(int32_t i) const { return slices_[static_cast<size_t>(i)]; }
  static bool Jumps(const Slice&, int32_t source) { return source >= 0; }

  void Step(const Slice& slice, Cycle begin, Cycle end) {
    if (end <= begin) return;
    if (!steps_.empty()) {
      PathStep& later = steps_.back();
      if (later.track == slice.track && later.instruction == slice.instruction &&
          later.reason == slice.reason && later.begin == end) {
        later.begin = begin;
        return;
      }
    }
    steps_.push_back({slice.track, slice.instruction, begin, end, slice.reason});
  }

  const std::deque<Slice>& slices_;
  std::vector<int32_t> source_, before_;
  std::vector<PathStep> steps_;
};

}  // namespace

std::vector<PathStep> Recorder::CriticalPath() const {
  int32_t last = -1;
  for (size_t i = 0; i < slices_.size(); ++i) {
    if (tracks_[static_cast<size_t>(slices_[i].track)].engine) continue;
    if (last < 0 || slices_[static_cast<size_t>(last)].end < slices_[i].end) {
      last = static_cast<int32_t>(i);
    }
  }
  if (last < 0) return {};
  return Walk(slices_, flows_, tracks_.size()).Run(last);
}

}  // namespace tilelang::emulator
