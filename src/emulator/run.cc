#include "emulator/run.h"

#include <algorithm>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <thread>

#include "emulator/async/engines.h"
#include "emulator/core/algebra.h"
#include "emulator/core/runner.h"
#include "emulator/core/stall.h"
#include "emulator/sanitizer/grid_footprint.h"
#include "emulator/sanitizer/grid_shadow.h"
#include "emulator/sanitizer/previous_grid.h"

namespace tilelang::emulator {
namespace {

// Clusters that one host thread steps together when kernels talk through global memory; more only
// when these cannot go on without.
constexpr size_t kUsualResidents = 148;
// Rounds without an end after which a waiting cluster gets company.
constexpr uint64_t kRoundsBeforeCompany = 64;

// Clusters that begin before the grid before them has ended.
constexpr size_t kEarlyClusters = 16;
// Rounds that they run, at most, by a random schedule.
constexpr uint64_t kEarlyRounds = 64;

// Rounds in which they only wait or poll after which they cannot go on.
constexpr uint64_t kQuietRounds = 32;

// Clusters that an SM100 part could hold at once, registers left out of account: 148 SMs, each for
// 32 CTAs, 2048 threads and 228 KB of shared memory.
size_t MaxResidents(const Launch& launch) {
  const uint64_t threads = (launch.options.block.count() + kLanes - 1) / kLanes * kLanes;
  const uint64_t shared = launch.kernel.dynamic_shared_offset + launch.options.dynamic_shared;
  const uint64_t ctas = std::min({uint64_t{32}, 2048 / std::max<uint64_t>(threads, 1),
                                  228 * 1024 / std::max<uint64_t>(shared, 1)});
  return std::max<uint64_t>(1, 148 * std::max<uint64_t>(ctas, 1) / launch.options.cluster.count());
}

std::string MiB(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

// Describes the memory that a host thread needs to run `clusters`.
std::string DescribeMemory(const Launch& launch, size_t clusters, uint64_t shadow_bytes) {
  const Kernel& kernel = launch.kernel;
  const uint64_t ctas = std::max<size_t>(clusters, 1) * launch.options.cluster.count();
  const uint64_t warps = ctas * ((launch.options.block.count() + kLanes - 1) / kLanes);
  std::string text =
      "for each host thread, registers of " + MiB(warps * kernel.file_bytes) +
      ", local memory of " + MiB(warps * kLanes * kernel.thread_bytes()) + ", shared memory of " +
      MiB(ctas * (uint64_t{kernel.dynamic_shared_offset} + launch.options.dynamic_shared));
  if (!launch.options.sanitize) return text;
  return text + ", and " + MiB(shadow_bytes) +
         " in which the sanitizer keeps who used global memory (sanitize=False does without)";
}

// The first exception of a thread takes memory, without which the C++ library ends the process:
// there is some now.
void PrepareToThrow() {
  try {
    throw std::bad_alloc();
  } catch (const std::bad_alloc&) {
  }
}

// Runs clusters on one host thread.
class Worker {
 public:
  explicit Worker(Launch& launch) : launch_(launch), watch_(launch.kernel) {
    if (launch.options.sanitize) shadow_ = std::make_unique<GridShadow>(launch);
  }

  void Run() {
    PrepareToThrow();
    current_algebra = launch_.algebra;
    try {
      while (Admit()) Step();
    } catch (...) {
      Report();
    }
    Count();
    current_algebra = nullptr;
  }

  // Runs so many clusters until all of them wait or poll, and so many rounds at most.
  void RunEarly(size_t clusters, uint64_t rounds) {
    PrepareToThrow();
    current_algebra = launch_.algebra;
    try {
      while (active_ < clusters && Start()) {
      }
      uint64_t quiet = 0;
      for (uint64_t i = 0; i < rounds && quiet < kQuietRounds && !launch_.cancelled; ++i) {
        Step();
        quiet = polling_ ? quiet + 1 : 0;
      }
    } catch (...) {
      Report();
    }
  }

  void RunTimedClusters() {
    PrepareToThrow();
    try {
      RunTimed(launch_, shadow_.get(), &current_);
    } catch (...) {
      Report();
    }
  }

  // Looks for races with what another host thread ran.
  void Compare(const Worker& other) {
    if (!shadow_ || launch_.cancelled) return;
    try {
      shadow_->Merge(*other.shadow_);
    } catch (...) {
      Report();
    }
  }

  void AddTo(GridFootprint& footprint) const {
    if (shadow_) shadow_->AddTo(footprint);
  }

 private:
  struct Resident {
    std::unique_ptr<ClusterRunner> runner;
    bool active = false;
  };

  // Makes sure that something runs; false when the launch is over for this thread.
  bool Admit() {
    if (launch_.cancelled) return false;
    bool wants_company =
        launch_.kernel.communicates && rounds_ >= kRoundsBeforeCompany && active_ < max_residents_;
    if (active_ > 0 && !wants_company) return true;
    rounds_ = 0;
    return Start() || active_ > 0;
  }

  // Starts the next cluster, if there is one.
  bool Start() {
    const uint64_t index = NextCluster();
    if (index >= launch_.clusters()) return false;
    Resident* free = nullptr;
    for (Resident& resident : residents_) {
      if (!resident.active) free = &resident;
    }
    if (!free) {
      residents_.push_back({std::make_unique<ClusterRunner>(launch_, shadow_.get()), false});
      free = &residents_.back();
    }
    current_ = &free->runner->cluster();
    free->runner->Start(index);
    free->active = true;
    ++active_;
    watch_.Restart();
    return true;
  }

  // Clusters that were timed have run already.
  uint64_t NextCluster() {
    const auto& timed = launch_.timed_clusters;
    uint64_t index = launch_.next_cluster++;
    while (index < timed.size() && timed[index]) index = launch_.next_cluster++;
    return index;
  }

  void Step() {
    polling_ = true;
    std::vector<Cluster*> running;
    const uint64_t active = active_;
    for (Resident& resident : residents_) {
      if (!resident.active || launch_.cancelled) continue;
      current_ = &resident.runner->cluster();
      ClusterRunner::Status status = resident.runner->Round();
      polling_ &= status != ClusterRunner::Status::kRunning;
      if (status == ClusterRunner::Status::kDone) {
        resident.active = false;
        --active_;
        rounds_ = 0;
      } else {
        running.push_back(&resident.runner->cluster());
      }
    }
    ++rounds_;
    if (active_ != active || launch_.previous_runs) return watch_.Restart();
    const StallWatch::Finding finding = watch_.Observe(running, polling_);
    if (finding != StallWatch::Finding::kNone) Stuck(running, finding);
  }

  // Nobody goes on: clusters that have not started may help, if there is room for them.
  void Stuck(const std::vector<Cluster*>& running, StallWatch::Finding finding) {
    const uint64_t next = launch_.next_cluster;
    const uint64_t waiting = launch_.clusters() - std::min(next, launch_.clusters());
    std::string note;
    if (waiting && launch_.kernel.communicates) {
      const size_t most = MaxResidents(launch_);
      if (active_ < most) {
        max_residents_ = std::max(max_residents_, std::min(2 * active_, most));
        return watch_.Restart();
      }
      note = "\n  " + std::to_string(waiting) +
             " clusters have not started: the GPU has no room "
             "for more than " +
             std::to_string(most) + " at once";
    }
    FailStuck(running, finding, note);
  }

  void Count() {
    std::lock_guard<std::mutex> lock(launch_.mutex);
    for (const Resident& resident : residents_) {
      CountInstructions(launch_, resident.runner->cluster());
    }
  }

  // The launch ends with the exception that is being handled.
  void Report() {
    const uint64_t shadow_bytes = shadow_ ? shadow_->Bytes() : 0;
    shadow_.reset();  // most of what there is: after a failed allocation the rest needs some
    const EmulatorError error =
        CurrentError("running the kernel: " + DescribeMemory(launch_, active_, shadow_bytes));
    std::lock_guard<std::mutex> lock(launch_.mutex);
    uint64_t cta = current_ ? current_->linear_id : 0;
    if (!launch_.error || cta < launch_.error_cta) {
      launch_.error = error;
      launch_.error_cta = cta;
    }
    launch_.cancelled = true;
  }

  Launch& launch_;
  std::unique_ptr<GridShadow> shadow_;
  std::vector<Resident> residents_;
  const Cluster* current_ = nullptr;
  size_t active_ = 0, max_residents_ = kUsualResidents;
  uint64_t rounds_ = 0;
  bool polling_ = false;  // all that ran in the last step
  StallWatch watch_;
};

int Threads(const Launch& launch) {
  if (launch.options.threads > 0) return launch.options.threads;
  uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::min<uint64_t>(cores, launch.clusters()));
}

// A barrier, after four bytes of size.
constexpr uint64_t kGridWorkspaceBytes = 64;

// The first clusters begin while the grid before them runs, whose stores are not yet there: until
// they cannot go on without its end; by a random schedule, until some time before.
void Overlap(Launch& launch, Worker& worker) {
  if (launch.options.schedule == Schedule::kEager) return;
  size_t clusters = kEarlyClusters;
  uint64_t rounds = ~uint64_t{0};
  if (launch.options.schedule == Schedule::kRandom) {
    std::mt19937_64 random(launch.options.seed);
    clusters = 1 + random() % kEarlyClusters;
    rounds = random() % kEarlyRounds;
  }
  launch.previous->Withdraw(launch.global);
  launch.previous_runs = true;
  worker.RunEarly(clusters, rounds);
  launch.previous_runs = false;
  launch.previous->End();
}

void ReportNoWait(Launch& launch) {
  Where where = PlaceOf(launch.kernel, 0);
  launch.Report(EmulatorError(
      "missing-wait",
      "no thread has executed griddepcontrol.wait, which dependents of a grid that executes "
      "griddepcontrol.launch_dependents must: the grid of " +
          launch.previous->footprint().kernel() +
          " before this one may still run when this one has ended, and the next one would not "
          "know; execute griddepcontrol.wait (T.pdl_sync) in one thread at least",
      where));
}

void RunWorkers(Launch& launch) {
  if (launch.options.sanitize) launch.observer = SanitizerObserver();
  if (launch.options.sanitize && launch.kernel.launches_dependents) {
    launch.footprint = std::make_shared<GridFootprint>(launch.kernel.name);
  }
  int count = Threads(launch);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(launch));
  const TimingOptions& timing = launch.options.timing;
  if (launch.previous && timing.gpu.empty()) Overlap(launch, *workers[0]);
  if (!timing.gpu.empty()) workers[0]->RunTimedClusters();
  if (timing.sampled) launch.footprint.reset();
  if (launch.cancelled || timing.sampled) return;
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < count; ++i) {
      try {
        threads.emplace_back([&, i] { workers[i]->Run(); });
      } catch (const std::system_error&) {
        break;  // the host gives no more threads, so the existing threads do the work
      }
    }
    workers[0]->Run();
  }
  for (int i = 1; i < count; ++i) workers[0]->Compare(*workers[i]);
  if (launch.cancelled) return;
  if (launch.previous && !launch.previous_awaited) ReportNoWait(launch);
  if (!launch.footprint || !launch.dependents_launched) return;
  for (const auto& worker : workers) worker->AddTo(*launch.footprint);
  launch.footprint->Finish();
}

}  // namespace

void Run(Launch& launch) {
  if (launch.kernel.unsupported) {
    launch.error = launch.kernel.unsupported;
    return;
  }
  // Values that pass between CTAs must not depend on how the host schedules its threads.
  if (launch.kernel.communicates || launch.algebra) launch.options.threads = 1;
  try {
    if (launch.kernel.uses_grid_workspace) {
      launch.grid_workspace = launch.global.Allocate(kGridWorkspaceBytes, "grid workspace");
    }
    RunWorkers(launch);
  } catch (...) {
    launch.error = CurrentError("starting the launch");
  }
  if (!launch.dependents_launched || launch.error) launch.footprint.reset();
  if (launch.grid_workspace) launch.global.Unmap(launch.grid_workspace);
}

}  // namespace tilelang::emulator
