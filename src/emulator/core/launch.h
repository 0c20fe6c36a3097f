// One launch of a kernel: its configuration, what it shares between host threads, its outcome.
#ifndef TILELANG_EMULATOR_CORE_LAUNCH_H_
#define TILELANG_EMULATOR_CORE_LAUNCH_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emulator/base/error.h"
#include "emulator/core/access.h"
#include "emulator/core/kernel.h"

namespace tilelang::emulator {

// The time at which asynchronous operations act: as late as allowed, at once, or in a seeded legal
// order.
enum class Schedule : uint8_t { kLate, kEager, kRandom };

// Reports that the user does not want: reports of a kind in which the instruction, or the earlier
// one of two conflicting instructions, is at a place. Fields that are empty or 0 fit all.
struct Suppression {
  std::string kind, kernel, file;
  int line = 0;  // of `file`, or of the PTX text
  bool Covers(const EmulatorError& error) const;
};

// Options of a timed launch.
struct TimingOptions {
  std::string gpu;               // its name, "B200"; empty: it is not timed
  bool sampled = false;          // only the CTAs that are timed run
  bool alone = false;            // only kernels of its module read what it writes
  bool warm = false;             // inputs lie in L2 at the start
  bool record = true;            // keep what happened when
  double clock_mhz = 0;          // 0: that of the architecture
  uint64_t ctas = 0;             // most CTAs to time in detail; 0: chosen
  int registers = 0;             // of a thread; 0: estimated
  std::set<std::string> ablate;  // what costs nothing
};

struct TimingResult;
class Cluster;
class Algebra;
class GridFootprint;
class PreviousGrid;

struct LaunchOptions {
  Dim3 grid, block, cluster;
  bool explicit_cluster = false;
  uint32_t dynamic_shared = 0;
  Schedule schedule = Schedule::kLate;
  uint64_t seed = 0;
  uint64_t instruction_limit = 0;   // warp instructions of the whole launch; 0: none
  bool sanitize = true;             // report accesses that nothing orders
  bool keep_going = false;          // collect these reports; otherwise the first is an error
  std::set<std::string> collected;  // kinds of reports that are collected in any case
  std::vector<Suppression> suppressions;
  int threads = 0;  // host threads; 0: chosen
  std::set<std::string> lints;
  TimingOptions timing;
};

struct Warning {
  std::string kind, message;
  Where where;
  uint64_t count = 1;
};

// A report that did not end the launch.
struct Finding {
  EmulatorError error;
  uint64_t count = 0;
};

struct Launch {
  Launch(const Kernel& kernel, GlobalMemory& global) : kernel(kernel), global(global) {}

  const Kernel& kernel;
  GlobalMemory& global;
  LaunchOptions options;
  std::vector<uint8_t> params;
  AccessObserver* observer = nullptr;
  Algebra* algebra = nullptr;            // of the algebraic mode
  std::vector<bool> timed_clusters;      // have been run
  bool skips_products = false;           // of tensor cores: nothing that is done depends on them
  std::shared_ptr<TimingResult> timing;  // of a timed launch that succeeded
  // The grid before a programmatic launch, which may still run. nullptr: it has ended.
  std::shared_ptr<PreviousGrid> previous;
  // The accesses of this grid, for the next one; only with the sanitizer, and if it launches
  // dependents.
  std::shared_ptr<GridFootprint> footprint;
  uint64_t grid_workspace = 0;  // of cooperative groups; 0: the kernel does not ask for it

  // Shared by the host threads.
  std::atomic<uint64_t> next_cluster{0};
  std::atomic<uint64_t> finished_ctas{0};
  std::atomic<uint64_t> instructions{0};  // warp instructions
  std::atomic<bool> cancelled{false};
  std::atomic<bool> previous_runs{false};                    // griddepcontrol.wait does not go on
  std::atomic<bool> previous_awaited{false};                 // by some thread
  std::atomic<bool> dependents_launched{false};              // by some thread
  std::mutex mutex;                                          // guards what follows
  std::array<InstructionCount, kInstructionClasses> counts;  // by class; complete at the end
  std::optional<EmulatorError> error;
  uint64_t error_cta = ~uint64_t{0};
  std::map<std::pair<std::string, int>, Warning> warnings;  // by kind and PTX line
  std::map<uint64_t, std::string> output;                   // printf text by CTA
  uint64_t printed = 0;                                     // bytes of it
  std::map<std::pair<std::string, int>, Finding> findings;  // by kind and PTX line
  std::vector<uint64_t> suppressed;                         // by suppression
  // The cluster that clusterlaunchcontrol takes over next, where not all of the grid run; one
  // beyond the grid if there is none. Empty: the next one of the grid.
  std::function<uint64_t()> pending_cluster;

  uint64_t clusters() const { return options.grid.count() / options.cluster.count(); }
  // Returns whether the launch suppresses the error, and counts it.
  bool Suppresses(const EmulatorError& error);
  // Reports a finding of a check of ordering: throws it, unless it is suppressed or all findings
  // are collected.
  void Report(const EmulatorError& error);
  bool Lint(const std::string& name) const { return options.lints.count(name) != 0; }
};

// Adds what a cluster has executed, by class. Takes no lock.
void CountInstructions(Launch& launch, const Cluster& cluster);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_LAUNCH_H_
