#include "emulator/timing/capacity.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

constexpr double kNothing = 1e-4;

}  // namespace

Capacity::Capacity(double rate, int width)
    : rate_(rate), width_(width), room_(rate * width), used_(kBins, 0.0F) {}

void Capacity::Forget(Cycle time) {
  const int64_t first = static_cast<int64_t>(time / width_);
  if (first - first_ > kBins) first_ = std::max(first_, first - kBins);
  for (; first_ < first; ++first_) Used(first_) = 0;
  full_ = std::max(full_, first_);
}

void Capacity::Occupy(Cycle from, Cycle until, double share) {
  const int64_t last = std::min(first_ + kBins, static_cast<int64_t>(until / width_));
  for (int64_t bin = static_cast<int64_t>(from / width_); bin < last; ++bin) {
    Used(bin) = static_cast<float>(room_ * share);
  }
}

Cycle Capacity::Next(Cycle from) const {
  return std::max(from, static_cast<double>(full_) * width_);
}

Cycle Capacity::Take(Cycle from, double units) {
  served_ += units;
  int64_t bin = std::max(full_, static_cast<int64_t>(from / width_));
  Cycle end = from;
  for (; units > kNothing; ++bin) {
    if (bin >= first_ + kBins) return static_cast<double>(bin) * width_;
    float& used = Used(bin);
    const double taken = std::min(units, room_ - used);
    const bool late = static_cast<double>(bin) * width_ > from;
    used += static_cast<float>(taken);
    units -= taken;
    if (late) end = static_cast<double>(bin) * width_ + used / rate_;
    if (bin == full_ && room_ - used <= kNothing) ++full_;
  }
  return end;
}

Cycle Capacity::Claim(Cycle from, double units) {
  served_ += units;
  int64_t bin = std::max(full_, static_cast<int64_t>(from / width_));
  Cycle end = from;
  while (units > kNothing) {
    if (bin >= first_ + kBins) {
      return std::max(from, static_cast<double>(bin) * width_) + units / rate_;
    }
    float& used = Used(bin);
    const double start = static_cast<double>(bin) * width_;
    // Of the first bin only what comes after `from` is left.
    const double left = (start + width_ - std::max(from, start)) * rate_;
    const double taken = std::min({units, room_ - used, left});
    if (taken > kNothing) {
      used += static_cast<float>(taken);
      units -= taken;
      // What is in the bin already comes first.
      end = std::max(std::max(from, start) + taken / rate_, start + used / rate_);
    }
    if (bin == full_ && room_ - used <= kNothing) ++full_;
    ++bin;
  }
  return end;
}

}  // namespace tilelang::emulator
