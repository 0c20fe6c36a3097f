// Finds which of many events comes first.
#ifndef TILELANG_EMULATOR_TIMING_EARLIEST_H_
#define TILELANG_EMULATOR_TIMING_EARLIEST_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "emulator/core/timing.h"

namespace tilelang::emulator {

// A tournament of times: one changes in as many steps as the tree is deep.
class Earliest {
 public:
  explicit Earliest(size_t count) : leaves_(std::bit_ceil(count)), nodes_(2 * leaves_) {
    for (size_t i = 0; i < leaves_; ++i) nodes_[i + leaves_].winner = i;
    Rebuild();
  }

  void Set(size_t i, Cycle time) {
    Node here{time, i};
    for (size_t node = i + leaves_; node > 1; node /= 2) {
      nodes_[node] = here;
      const Node& other = nodes_[node ^ 1];
      // No branch: nobody can predict who wins.
      const size_t other_wins = Wins(other, node % 2 != 0, here);
      here.winner ^= (here.winner ^ other.winner) & -other_wins;
      here.time = std::min(here.time, other.time);
    }
    nodes_[1] = here;
  }
  // Put and Rebuild change many times: Put sets each one, and Rebuild makes all of them take
  // effect.
  void Put(size_t i, Cycle time) { nodes_[i + leaves_].time = time; }
  void Rebuild() {
    for (size_t i = leaves_ - 1; i > 0; --i) {
      const Node &left = nodes_[2 * i], &right = nodes_[2 * i + 1];
      nodes_[i] = Wins(left, true, right) ? left : right;
    }
  }
  // Returns the first event. Of several at the same time it is the one with the lowest number.
  size_t First() const { return nodes_[1].winner; }
  Cycle FirstTime() const { return nodes_[1].time; }
  // Returns the time of the second event.
  Cycle SecondTime() const {
    Cycle second = kNever;
    for (size_t node = First() + leaves_; node > 1; node /= 2) {
      second = std::min(second, nodes_[node ^ 1].time);
    }
    return second;
  }

 private:
  struct Node {
    Cycle time = kNever;
    size_t winner = 0;
  };
  // Returns whether one event, to the left of another one or to the right, comes before it.
  static bool Wins(const Node& one, bool left, const Node& other) {
    return (one.time < other.time) | (left & (one.time == other.time));
  }

  size_t leaves_;
  std::vector<Node> nodes_;  // the children of node i are 2 i and 2 i + 1
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_EARLIEST_H_
