#include <algorithm>

#include "emulator/timing/recorder.h"

namespace tilelang::emulator {
namespace {

// Walks from slice to slice, back in time.
class Walk {
 public:
  Walk(const SliceList& slices, const std::vector<FlowEdge>& flows)
      : slices_(slices), flows_(flows) {
    std::stable_sort(flows_.begin(), flows_.end(),
                     [](const FlowEdge& a, const FlowEdge& b) { return a.to < b.to; });
  }

  std::vector<PathStep> Run(int32_t slice) {
    Cycle time = At(slice).end;
    while (slice >= 0 && time > 0) {
      const Slice& here = At(slice);
      const int32_t source = SourceOf(slice);
      // A release ends a wait. Work of the releasing warp before this slice is not part of the
      // wait.
      const Cycle from = source >= 0 ? std::clamp(At(source).end, here.begin, time) : here.begin;
      const Cycle begin = source >= 0 && At(source).end < here.begin ? At(source).end : from;
      Step(here, std::min(begin, time), time);
      time = std::min(begin, time);
      slice = source >= 0 ? source : here.before;
    }
    std::reverse(steps_.begin(), steps_.end());
    return std::move(steps_);
  }

 private:
  const Slice& At(int32_t i) const { return slices_[static_cast<size_t>(i)]; }

  // Returns the last slice that released this one, or -1 if no slice did.
  int32_t SourceOf(int32_t slice) const {
    int32_t source = -1;
    auto flow = std::lower_bound(flows_.begin(), flows_.end(), slice,
                                 [](const FlowEdge& edge, int32_t to) { return edge.to < to; });
    for (; flow != flows_.end() && flow->to == slice; ++flow) {
      if (source < 0 || At(source).end < At(flow->from).end) source = flow->from;
    }
    return source;
  }

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

  const SliceList& slices_;
  std::vector<FlowEdge> flows_;  // in the order of what they release
  std::vector<PathStep> steps_;
};

}  // namespace

std::vector<PathStep> Recorder::CriticalPath() const {
  // The slices of a warp are in the order of time, so the last slice of each account is its latest
  // one.
  const Account* last = nullptr;
  for (const Account& account : accounts_) {
    if (!account.sums_ || !account.slice_) continue;
    if (!last || last->slice_->end < account.slice_->end ||
        (last->slice_->end == account.slice_->end && account.last_ < last->last_)) {
      last = &account;
    }
  }
  if (!last) return {};
  return Walk(slices_, flows_).Run(last->last_);
}

}  // namespace tilelang::emulator
