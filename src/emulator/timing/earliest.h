// Which of many comes first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "emulator/core/timing.h"

namespace tilelang::emulator {

// A tournament of times: one changes in as many steps as the tree is deep.
class Earliest {
 public:
  explicit Earliest(size_t count) : leaves_(std::bit_ceil(count)), times_(2 * leaves_, kNever) {}

  void Set(size_t i, Cycle time) {
    i += leaves_;
    for (times_[i] = time; i > 1; i /= 2) times_[i / 2] = std::min(times_[i], times_[i ^ 1]);
  }
  Cycle TimeOf(size_t i) const { return times_[leaves_ + i]; }
  // Of several at the same time the one with the lowest number; when the next one comes.
  size_t First(Cycle* second) const {
    size_t i = 1;
    *second = kNever;
    while (i < leaves_) {
      const bool right = times_[2 * i + 1] < times_[2 * i];
      *second = std::min(*second, times_[2 * i + (right ? 0 : 1)]);
      i = 2 * i + (right ? 1 : 0);
    }
    return i - leaves_;
  }

 private:
  size_t leaves_;
  std::vector<Cycle> times_;  // of node i, whose children are 2 i and 2 i + 1
};

}  // namespace tilelang::emulator
