#include "emulator/run.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "emulator/async/engines.h"
#include "emulator/core/runner.h"
#include "emulator/core/stall.h"
#include "emulator/sanitizer/grid_footprint.h"
#include "emulator/sanitizer/grid_shadow.h"

namespace tilelang::emulator {
namespace {

// Clusters that one host thread steps together when kernels talk through global memory; more only
// when these cannot go on without.
constexpr size_t kUsualResidents = 148;
// Rounds without an end after which a waiting cluster gets company.
constexpr uint64_t kRoundsBeforeCompany = 64;

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

// What a host thread that runs `clusters` keeps in memory.
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

// What one host thread does.
class Worker {
 public:
  explicit Worker(Launch& launch) : launch_(launch), watch_(launch.kernel) {
    if (launch.options.sanitize) shadow_ = std::make_unique<GridShadow>(launch);
  }

  void Run() {
    PrepareToThrow();
    try {
      while (Admit()) Step();
    } catch (...) {
      Report();
    }
    Count();
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
    uint64_t index = NextCluster();
    if (index >= launch_.clusters()) return active_ > 0;
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

  // Those that were timed have run.
  uint64_t NextCluster() {
    const auto& timed = launch_.timed_clusters;
    uint64_t index = launch_.next_cluster++;
    while (index < timed.size() && timed[index]) index = launch_.next_cluster++;
    return index;
  }

  void Step() {
    bool polling = true;
    std::vector<Cluster*> running;
    const uint64_t active = active_;
    for (Resident& resident : residents_) {
      if (!resident.active || launch_.cancelled) continue;
      current_ = &resident.runner->cluster();
      ClusterRunner::Status status = resident.runner->Round();
      polling &= status == ClusterRunner::Status::kPolling;
      if (status == ClusterRunner::Status::kDone) {
        resident.active = false;
        --active_;
        rounds_ = 0;
      } else {
        running.push_back(&resident.runner->cluster());
      }
    }
    ++rounds_;
    if (active_ != active) return watch_.Restart();
    const StallWatch::Finding finding = watch_.Observe(running, polling);
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
  StallWatch watch_;
};

int Threads(const Launch& launch) {
  if (launch.options.threads > 0) return launch.options.threads;
  uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::min<uint64_t>(cores, launch.clusters()));
}

// A barrier, after four bytes of size.
constexpr uint64_t kGridWorkspaceBytes = 64;

void RunWorkers(Launch& launch) {
  if (launch.options.sanitize) launch.observer = SanitizerObserver();
  int count = Threads(launch);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(launch));
  const TimingOptions& timing = launch.options.timing;
  if (!timing.arch.empty()) workers[0]->RunTimedClusters();
  if (launch.cancelled || timing.sampled) return;
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < count; ++i) {
      try {
        threads.emplace_back([&, i] { workers[i]->Run(); });
      } catch (const std::system_error&) {
        break;  // the host gives no more threads: those that there are do the work
      }
    }
    workers[0]->Run();
  }
  for (int i = 1; i < count; ++i) workers[0]->Compare(*workers[i]);
  if (!launch.kernel.releases_dependents || !launch.options.sanitize || launch.cancelled) return;
  launch.footprint = std::make_shared<GridFootprint>(launch.kernel.name);
  for (const auto& worker : workers) worker->AddTo(*launch.footprint);
}

}  // namespace

void Run(Launch& launch) {
  if (launch.kernel.unsupported) {
    launch.error = launch.kernel.unsupported;
    return;
  }
  // Values that pass between CTAs must not depend on how the host schedules its threads.
  if (launch.kernel.communicates) launch.options.threads = 1;
  try {
    if (launch.kernel.uses_grid_workspace) {
      launch.grid_workspace = launch.global.Allocate(kGridWorkspaceBytes, "grid workspace");
    }
    RunWorkers(launch);
  } catch (...) {
    launch.error = CurrentError("starting the launch");
  }
  if (launch.grid_workspace) launch.global.Unmap(launch.grid_workspace);
}

}  // namespace tilelang::emulator
