// A resource that serves so many units a cycle, asked for in any order of time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "emulator/core/timing.h"

namespace tilelang::emulator {

// Time is cut into bins of `width` cycles that hold `width * rate` units each. A claim takes what
// is left from its time on, so that it may come after a later one.
class Capacity {
 public:
  Capacity(double rate, int width);

  // When the last of `units` is served, if the first may be at `from`.
  Cycle Claim(Cycle from, double units) { return ClaimInBin<false>(from, units); }
  // The same of a resource that serves one unit a cycle.
  Cycle ClaimCycles(Cycle from, double cycles) { return ClaimInBin<true>(from, cycles); }
  // The same of a resource that many share: what comes in bursts is served at once, as long as a
  // bin has room for it.
  Cycle Take(Cycle from, double units);
  // From when on units are served that are claimed at `from`, all earlier claims first.
  Cycle Next(Cycle from) const { return std::max(from, static_cast<double>(full_) * width_); }
  // How much of it is taken at that time.
  double ShareAt(Cycle time) const {
    const int64_t bin = BinOf(time);
    return bin < first_ || bin >= first_ + kBins ? 0 : used_[IndexOf(bin)] / room_;
  }
  // Others take a share of it between these times.
  void Occupy(Cycle from, Cycle until, double share);
  double served() const { return served_; }
  double rate() const { return rate_; }
  // No claim will come before `time`.
  void Forget(Cycle time);

 private:
  // A claim beyond so many bins from what is forgotten is served at once.
  static constexpr int64_t kBins = 1024;
  static constexpr double kNothing = 1e-4;  // units
  Cycle ClaimBins(Cycle from, double units);
  // Mostly the first bin has room for all of it, and more is left.
  template <bool cycles>
  Cycle ClaimInBin(Cycle from, double units) {
    const int64_t bin = BinOf(from);
    if (bin < full_ || bin >= first_ + kBins) return ClaimBins(from, units);
    const double start = static_cast<double>(bin) * width_;
    const double left = start + width_ - from;
    float& used = Used(bin);
    if (units > (cycles ? left : left * rate_) || units >= room_ - used - kNothing ||
        units <= kNothing) {
      return ClaimBins(from, units);
    }
    served_ += units;
    used += static_cast<float>(units);
    const Cycle alone = from + (cycles ? units : TimeOf(units));
    const Cycle queued = start + (cycles ? used : TimeOf(used));
    if (queued > alone) [[unlikely]]
      return Later(queued);
    return alone;
  }
  // A power of two is divided by exactly when its inverse is multiplied by.
  double TimeOf(double units) const { return inverse_ != 0 ? units * inverse_ : units / rate_; }
  // Called, not inlined: else the compiler makes an exchange of values of that branch.
  [[gnu::noinline]] static Cycle Later(Cycle time) { return time; }
  static size_t IndexOf(int64_t bin) { return static_cast<size_t>(bin & (kBins - 1)); }
  float& Used(int64_t bin) { return used_[IndexOf(bin)]; }
  // The first bin from this one on that is not full.
  int64_t NextOpen(int64_t bin) const;
  // Takes units from a bin.
  void Fill(int64_t bin, double units);
  void Empty(int64_t bin);
  int64_t BinOf(Cycle time) const { return static_cast<int64_t>(time * bins_per_cycle_); }

  double rate_, inverse_ = 0, served_ = 0;
  double width_, room_, bins_per_cycle_;
  int64_t first_ = 0;  // bins before are forgotten
  int64_t full_ = 0;   // all bins before are full or forgotten
  std::vector<float> used_;
  std::array<uint64_t, kBins / 64> full_bins_{};  // a bit for each
};

}  // namespace tilelang::emulator
