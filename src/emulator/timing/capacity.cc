#include "emulator/timing/capacity.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tilelang::emulator {

Capacity::Capacity(double rate, int width)
    : rate_(rate),
      width_(width),
      room_(rate * width),
      bins_per_cycle_(1.0 / width),
      used_(kBins, 0.0F) {
  int exponent = 0;
  if (std::frexp(rate, &exponent) == 0.5) inverse_ = 1 / rate;
}

int64_t Capacity::NextOpen(int64_t bin) const {
  for (const int64_t end = first_ + kBins; bin < end;) {
    const size_t index = IndexOf(bin);
    const int run = std::countr_one(full_bins_[index / 64] >> (index % 64));
    bin += run;
    if (run < 64 - static_cast<int>(index % 64)) return bin;
  }
  return bin;
}

void Capacity::Fill(int64_t bin, double units) {
  float& used = Used(bin);
  used += static_cast<float>(units);
  if (room_ - used > kNothing) return;
  full_bins_[IndexOf(bin) / 64] |= uint64_t{1} << (IndexOf(bin) % 64);
  if (bin == full_) full_ = NextOpen(full_ + 1);
}

void Capacity::Empty(int64_t bin) {
  Used(bin) = 0;
  full_bins_[IndexOf(bin) / 64] &= ~(uint64_t{1} << (IndexOf(bin) % 64));
}

void Capacity::Forget(Cycle time) {
  const int64_t first = BinOf(time);
  if (first - first_ > kBins) first_ = std::max(first_, first - kBins);
  while (first_ < first) {
    // To the end of a word of bits.
    const size_t index = IndexOf(first_);
    const int64_t count = std::min<int64_t>(first - first_, 64 - static_cast<int64_t>(index % 64));
    const uint64_t bits = ~uint64_t{0} >> (64 - count);
    full_bins_[index / 64] &= ~(bits << (index % 64));
    std::fill_n(used_.begin() + static_cast<int64_t>(index), count, 0.0F);
    first_ += count;
  }
  full_ = std::max(full_, first_);
}

void Capacity::Occupy(Cycle from, Cycle until, double share) {
  const int64_t last = std::min(first_ + kBins, BinOf(until));
  for (int64_t bin = BinOf(from); bin < last; ++bin) {
    Empty(bin);
    Fill(bin, room_ * share);
  }
}

Cycle Capacity::Take(Cycle from, double units) {
  served_ += units;
  Cycle end = from;
  for (int64_t bin = std::max(full_, BinOf(from)); units > kNothing; ++bin) {
    bin = NextOpen(bin);
    if (bin >= first_ + kBins) return static_cast<double>(bin) * width_;
    const double taken = std::min(units, room_ - Used(bin));
    const bool late = static_cast<double>(bin) * width_ > from;
    Fill(bin, taken);
    units -= taken;
    if (late) end = static_cast<double>(bin) * width_ + TimeOf(Used(bin));
  }
  return end;
}

Cycle Capacity::ClaimBins(Cycle from, double units) {
  served_ += units;
  Cycle end = from;
  for (int64_t bin = std::max(full_, BinOf(from)); units > kNothing; ++bin) {
    bin = NextOpen(bin);
    const double start = static_cast<double>(bin) * width_;
    if (bin >= first_ + kBins) return std::max(from, start) + TimeOf(units);
    // Of the first bin only what comes after `from` is left.
    const double left = (start + width_ - std::max(from, start)) * rate_;
    const double taken = std::min({units, room_ - Used(bin), left});
    if (taken <= kNothing) continue;
    Fill(bin, taken);
    units -= taken;
    // What is in the bin already comes first.
    end = std::max(std::max(from, start) + TimeOf(taken), start + TimeOf(Used(bin)));
  }
  return end;
}

}  // namespace tilelang::emulator
