#include "emulator/timing/capacity.h"

#include <algorithm>
#include <bit>

namespace tilelang::emulator {

Capacity::Capacity(double rate, int width)
    : rate_(rate),
      cycles_per_unit_(1 / rate),
      shift_(std::countr_zero(static_cast<uint64_t>(Cycle(width).parts()))),
      width_(Parts{1} << shift_),
      limit_(Parts{kBins} << shift_) {}

Capacity::Parts Capacity::NextOpen(Parts time) const {
  Parts bin = time >> shift_;
  for (const Parts end = limit_ >> shift_; bin < end;) {
    const size_t index = static_cast<size_t>(bin) % kBins;
    const int run = std::countr_one(full_bins_[index / 64] >> (index % 64));
    bin += run;
    if (run < 64 - static_cast<int>(index % 64)) break;
  }
  return std::max(time, bin << shift_);
}

void Capacity::Close(Parts time) {
  full_bins_[IndexOf(time) / 64] |= uint64_t{1} << (IndexOf(time) % 64);
  if (StartOf(time) == open_) open_ = NextOpen(open_ + width_);
}

void Capacity::Fill(Parts time, Parts parts) {
  Parts& used = used_[IndexOf(time)];
  used += parts;
  if (used >= width_) Close(time);
}

void Capacity::Forget(Cycle time) {
  const Parts bins = static_cast<Parts>(kBins);
  const Parts first = time.parts() >> shift_;
  Parts bin = std::max(first_ >> shift_, first - bins);
  while (bin < first) {
    // Clears the bins up to the end of a word of bits.
    const size_t index = static_cast<size_t>(bin) % kBins;
    const Parts count = std::min<Parts>(first - bin, 64 - static_cast<Parts>(index % 64));
    full_bins_[index / 64] &= ~(~uint64_t{0} >> (64 - count) << (index % 64));
    std::fill_n(used_.begin() + static_cast<Parts>(index), count, 0);
    bin += count;
  }
  first_ = bin << shift_;
  open_ = std::max(open_, first_);
  limit_ = first_ + (bins << shift_);
}

void Capacity::Occupy(Cycle from, Cycle until, double share) {
  const Parts parts = static_cast<Parts>(static_cast<double>(width_) * share);
  const Parts end = std::min(limit_, StartOf(until.parts()));
  for (Parts bin = StartOf(from.parts()); bin < end; bin += width_) Fill(bin, parts);
}

Cycle Capacity::Take(Cycle from, double units) {
  Parts left = Cycle(units * cycles_per_unit_).parts();
  busy_ += left;
  Parts end = from.parts();
  for (Parts at = std::max(end, open_); left > 0; at = StartOf(at) + width_) {
    at = NextOpen(at);
    const Parts start = StartOf(at);
    if (at >= limit_) return Cycle::OfParts(start);
    const Parts taken = std::min(left, width_ - used_[IndexOf(at)]);
    Fill(at, taken);
    left -= taken;
    if (start > from.parts()) end = start + used_[IndexOf(at)];
  }
  return Cycle::OfParts(end);
}

Cycle Capacity::ClaimBins(Cycle from, Cycle takes) {
  Parts left = takes.parts();
  busy_ += left;
  Parts end = 0;
  for (Parts at = std::max(from.parts(), open_); left > 0; at = StartOf(at) + width_) {
    at = NextOpen(at);
    if (at >= limit_) return Cycle::OfParts(at + left);
    const Parts start = StartOf(at);
    // Only the part of the first bin after `at` is left.
    const Parts taken = std::min({left, width_ - used_[IndexOf(at)], start + width_ - at});
    Fill(at, taken);
    left -= taken;
    end = std::max(at + taken, start + used_[IndexOf(at)]);
  }
  return Cycle::OfParts(end);
}

}  // namespace tilelang::emulator
