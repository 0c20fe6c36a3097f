#include "emulator/core/launch.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "emulator/core/runner.h"
#include "emulator/sanitizer/grid_shadow.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {
namespace {

// Clusters that one host thread steps together when kernels talk through global memory; as many
// as an SM100 part could hold at once.
constexpr size_t kMaxResident = 148;
// Rounds without an end after which a waiting cluster gets company.
constexpr uint64_t kRoundsBeforeCompany = 64;

// What one host thread does.
class Worker {
 public:
  explicit Worker(Launch& launch) : launch_(launch) {
    if (launch.options.sanitize) shadow_ = std::make_unique<GridShadow>(launch);
  }

  void Run() {
    try {
      while (Admit()) Step();
    } catch (EmulatorError& error) {
      Report(error);
    }
    Count();
  }

  // Looks for races with what another host thread ran.
  void Compare(const Worker& other) {
    if (!shadow_ || launch_.cancelled) return;
    try {
      shadow_->Merge(*other.shadow_);
    } catch (EmulatorError& error) {
      Report(error);
    }
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
        launch_.kernel.communicates && rounds_ >= kRoundsBeforeCompany && active_ < kMaxResident;
    if (active_ > 0 && !wants_company) return true;
    rounds_ = 0;
    uint64_t index = launch_.next_cluster++;
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
    return true;
  }

  void Step() {
    bool all_spin = true;
    for (Resident& resident : residents_) {
      if (!resident.active || launch_.cancelled) continue;
      current_ = &resident.runner->cluster();
      ClusterRunner::Status status = resident.runner->Round();
      all_spin &= status == ClusterRunner::Status::kSpinning;
      if (status == ClusterRunner::Status::kDone) {
        resident.active = false;
        --active_;
        rounds_ = 0;
      }
    }
    ++rounds_;
    spinning_rounds_ = all_spin ? spinning_rounds_ + 1 : 0;
    if (spinning_rounds_ > kMaxSpinningRounds && launch_.next_cluster >= launch_.clusters()) {
      Fail(Issuer{current_->ctas[0].get(), nullptr, -1, -1}, "deadlock",
           "all threads that are left poll memory or barriers, and nothing changes");
    }
  }

  void Count() {
    std::lock_guard<std::mutex> lock(launch_.mutex);
    const Kernel& kernel = launch_.kernel;
    for (const Resident& resident : residents_) {
      const auto& counts = resident.runner->cluster().counts;
      for (size_t i = 0; i < counts.size(); ++i) {
        const InstructionClass kind = kernel.sources[kernel.code[i].source].kind;
        InstructionCount& sum = launch_.counts[static_cast<size_t>(kind)];
        sum.warps += counts[i].warps;
        sum.lanes += counts[i].lanes;
      }
    }
  }

  void Report(const EmulatorError& error) {
    std::lock_guard<std::mutex> lock(launch_.mutex);
    uint64_t cta = current_ ? current_->linear_id : 0;
    if (!launch_.error || cta < launch_.error_cta) {
      launch_.error = error;
      launch_.error_cta = cta;
    }
    launch_.cancelled = true;
  }

  static constexpr uint64_t kMaxSpinningRounds = 200000;
  Launch& launch_;
  std::unique_ptr<GridShadow> shadow_;
  std::vector<Resident> residents_;
  const Cluster* current_ = nullptr;
  size_t active_ = 0;
  uint64_t rounds_ = 0, spinning_rounds_ = 0;
};

int Threads(const Launch& launch) {
  // Values that pass between CTAs must not depend on how the host schedules its threads.
  if (launch.options.threads > 0) return launch.options.threads;
  if (launch.kernel.communicates) return 1;
  uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::min<uint64_t>(cores, launch.clusters()));
}

}  // namespace

void Run(Launch& launch) {
  if (launch.options.sanitize) launch.observer = SanitizerObserver();
  int count = Threads(launch);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(launch));
  std::vector<std::thread> threads;
  for (int i = 1; i < count; ++i) threads.emplace_back([&, i] { workers[i]->Run(); });
  workers[0]->Run();
  for (std::thread& thread : threads) thread.join();
  for (int i = 1; i < count; ++i) workers[0]->Compare(*workers[i]);
}

}  // namespace tilelang::emulator
