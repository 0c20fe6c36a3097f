// Finds out that a launch cannot go on: threads that repeat themselves while nothing changes.
#ifndef TILELANG_EMULATOR_CORE_STALL_H_
#define TILELANG_EMULATOR_CORE_STALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

// Watches the clusters that one host thread runs. Threads whose whole state (registers, local
// memory, program counters) comes back, while nothing is written and no engine acts, will repeat it
// forever: this is proof. Loops that count their tries never come back to a state. They are given
// up after kMaxPolls rounds in which threads did nothing but poll, all saw the same values as
// before, and nothing was written.
class StallWatch {
 public:
  enum class Finding : uint8_t { kNone, kRepeats, kGivenUp };
  static constexpr uint64_t kMaxPolls = 200000;

  explicit StallWatch(const Kernel& kernel);
  // Must be called after each round of `clusters`. `polling` says that all threads waited or
  // polled.
  Finding Observe(const std::vector<Cluster*>& clusters, bool polling);
  // Clusters have started or ended: all begins anew.
  void Restart();

 private:
  struct Totals {
    uint64_t writes = 0, syncs = 0, news = 0;
  };
  struct Seen {
    const Warp* warp;
    uint64_t places, state;  // of its lanes, and all of it, when the window began
    bool repeats = false;
  };

  Totals Count(const std::vector<Cluster*>& clusters) const;
  bool Unchanged(const std::vector<Cluster*>& clusters) const;
  void OpenWindow(const std::vector<Cluster*>& clusters);
  bool AllRepeat();
  bool OnlyPolls(const std::vector<Cluster*>& clusters);

  std::vector<uint32_t> writes_, syncs_;  // instructions that change more than registers
  uint64_t rounds_ = 0;                   // since a window was closed
  uint64_t gap_ = 0;                      // rounds from one window to the next
  uint64_t left_ = 0;                     // rounds of the open window; 0: none is open
  Totals at_window_;
  std::vector<Seen> seen_;
  uint64_t polling_rounds_ = 0;
  Totals at_check_;
  std::vector<uint64_t> polls_;
};

// Ends the launch: `running` cannot go on, as `finding` says; `note` follows what they wait for.
[[noreturn]] void FailStuck(const std::vector<Cluster*>& running, StallWatch::Finding finding,
                            const std::string& note);

// One line for each group of threads that waits, polls or runs in circles, at most `limit` of them.
// `where` receives the place of the first.
std::string DescribeThreads(const std::vector<Cluster*>& clusters, size_t limit, Issuer* where);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_STALL_H_
