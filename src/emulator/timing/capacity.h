// A resource that serves so many units a cycle, asked for in any order of time.
#ifndef TILELANG_EMULATOR_TIMING_CAPACITY_H_
#define TILELANG_EMULATOR_TIMING_CAPACITY_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "emulator/core/cycle.h"

namespace tilelang::emulator {

// Time is cut into bins. A claim takes what is left of them from its time on, so that it may come
// after a later one.
class Capacity {
 public:
  // `width`: cycles of a bin, a power of two.
  Capacity(double rate, int width);

  // Returns the time at which the last of `units` is served, if the first may be served at `from`.
  Cycle Claim(Cycle from, double units) {
    return units == 0 ? from : ClaimCycles(from, units * cycles_per_unit_);
  }
  // Does the same for work that takes `takes`. In most cases the first bin has room for all of it.
  Cycle ClaimCycles(Cycle from, Cycle takes) {
    const Parts need = takes.parts(), at = std::max(from.parts(), open_);
    Parts& used = used_[IndexOf(at)];
    const Parts offset = at & (width_ - 1);
    // Earlier claims of the bin come first.
    const Parts end = std::max(used, offset) + need;
    if (end > width_ || at >= limit_) [[unlikely]]
      return ClaimBins(from, takes);
    busy_ += need;
    used += need;
    if (used == width_) [[unlikely]]
      Close(at);
    return Cycle::OfParts(at - offset + end);
  }
  // The same of a resource that many share: what comes in bursts is served at once, as long as a
  // bin has room for it.
  Cycle Take(Cycle from, double units);
  // Returns how much of the capacity is taken at that time.
  double ShareAt(Cycle time) const {
    const Parts at = time.parts();
    return at < first_ || at >= limit_
               ? 0
               : static_cast<double>(used_[IndexOf(at)]) / static_cast<double>(width_);
  }
  // Others take a share of it between these times, before any claim.
  void Occupy(Cycle from, Cycle until, double share);
  // Returns the time that all claims take together.
  Cycle busy() const { return Cycle::OfParts(busy_); }
  double served() const { return busy().cycles() * rate_; }
  double rate() const { return rate_; }
  // No claim will come before `time`.
  void Forget(Cycle time);

 private:
  using Parts = int64_t;  // of a cycle
  static constexpr size_t kBins = 1024;
  size_t IndexOf(Parts time) const { return static_cast<size_t>(time >> shift_) % kBins; }
  Parts StartOf(Parts time) const { return time & -width_; }
  Cycle ClaimBins(Cycle from, Cycle takes);
  // Returns the first time from this one on whose bin is not full. It is not before `limit_` if all
  // bins are full.
  Parts NextOpen(Parts time) const;
  // Takes so much from the bin of that time.
  void Fill(Parts time, Parts parts);
  // Records that the bin of this time is full.
  void Close(Parts time);

  double rate_, cycles_per_unit_;
  int shift_;
  Parts width_;
  Parts busy_ = 0;
  Parts first_ = 0;  // bins before are forgotten
  Parts open_ = 0;   // all bins before are full or forgotten
  Parts limit_;      // a claim beyond is served at once
  std::array<Parts, kBins> used_{};
  std::array<uint64_t, kBins / 64> full_bins_{};  // a bit for each
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_CAPACITY_H_
