// Runs warps and clusters: which lanes, warps and engines go next, and what to do when none can.
#ifndef TILELANG_EMULATOR_CORE_RUNNER_H_
#define TILELANG_EMULATOR_CORE_RUNNER_H_

#include <cstdint>
#include <random>
#include <vector>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

struct WarpSlice {
  uint64_t executed = 0;
  bool yielded = false;  // ended in a spin loop's test
  bool stops = false;    // to end before an instruction that waits for other threads
  bool stopped = false;  // did so
  bool ended() const { return yielded || stopped; }
  bool blocked() const { return executed == 0; }
};

// Runs one warp for a time slice.
class WarpRunner {
 public:
  using Slice = WarpSlice;

  static Slice Run(Warp& warp, uint64_t budget, bool stops);
  // Runs the current split until it waits, yields, meets another split or the budget ends; or, by
  // a clock, which is a class derived from Timing, until others come first. In warp_loop.h.
  template <typename Clock>
  static void RunOne(Clock* clock, Warp& warp, uint64_t budget, bool boosted, Slice* slice);

 private:
  static void RunSplit(Warp& warp, uint64_t budget, bool boosted, Slice* slice);
  static bool PollWaiting(Warp& warp, Slice* slice);
  static bool MergeCurrent(Warp& warp);
  static void DropEmpty(Warp& warp);
  static void Select(Warp& warp, size_t index) { warp.current_ = index; }
  static int LowestRunnable(const Warp& warp);
  static int OldestRunnable(const Warp& warp);
};

// Runs one cluster step by step.
class ClusterRunner {
 public:
  // `grid_shadow`: with the sanitizer, otherwise null.
  ClusterRunner(Launch& launch, GridShadow* grid_shadow);
  void Start(uint64_t index);

  enum class Status : uint8_t { kRunning, kPolling, kDone };
  // One round: a slice of every warp, then the engines. Throws EmulatorError (deadlock, ...).
  Status Round();
  Cluster& cluster() { return cluster_; }

  // Functions for derived runners that choose themselves what runs.
  void CheckLimit(uint64_t executed);
  bool ExpireTimedWaits();
  [[noreturn]] void Deadlock();
  void Finish();

 private:
  uint64_t Budget();
  // Returns whether the warp stays away in this round. In random schedules warps often stay away
  // for long, and most of all before they wait for others.
  bool StaysAway(size_t warp);
  void MayLeave(size_t warp);
  void AllReturn();

  Cluster cluster_;
  std::mt19937_64 random_;
  std::vector<uint32_t> away_;  // rounds that each warp of the cluster still stays away
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_RUNNER_H_
