#include "emulator/timing/timed_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "emulator/timing/probe.h"
#include "emulator/timing/varying.h"

namespace tilelang::emulator {
namespace {

constexpr uint64_t kSliceInstructions = 4096;
// Cycles of the past that are forgotten together.
constexpr double kKept = 2048;
// Turns for each warp after which the model checks whether all warps only poll.
constexpr uint64_t kStepsOfRound = 8;
// Rounds of residence of an SM that are timed in detail if there are more.
constexpr uint64_t kTimedRounds = 2;
// Clusters to time if some take longer than others. Durations that differ by less than the factor
// kAlike belong to one kind.
constexpr uint64_t kFewest = 8;
constexpr double kAlike = 1.25;
constexpr double kGoldenSection = 0.6180339887498949;
// Clusters that an SM takes over in a sample.
constexpr uint64_t kTaken = 6;
// Clusters of a wave whose reads are recorded.
constexpr uint64_t kProbed = 264;

std::vector<int> LinesOf(const Kernel& kernel) {
  std::map<std::pair<int, int>, int> numbers;
  std::vector<int> lines;
  for (const Op& op : kernel.code) {
    const SourceLine& source = kernel.sources[op.source];
    const auto& at = source.location;
    const bool known = at.line > 0;
    const std::pair<int, int> key =
        known ? std::make_pair(at.file, at.line) : std::make_pair(-1, source.ptx_line);
    lines.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return lines;
}

// Returns the clock of the launch before the power limit acts.
double ClockOf(const Launch& launch, const Figures& figures, const CostTable& costs) {
  if (launch.options.timing.clock_mhz > 0) return launch.options.timing.clock_mhz;
  return costs.multiplies() ? figures.tensor_clock_mhz : figures.clock_mhz;
}

// Returns whether products of tensor cores can be left out, because they change neither the control
// flow of this grid nor that of other grids. Which kernels of the module run in its call, and how
// often, is not known here.
bool ProductsAreUnread(const Launch& launch) {
  const TimingOptions& timing = launch.options.timing;
  return timing.sampled && timing.alone &&
         std::none_of(
             launch.kernel.module->kernels.begin(), launch.kernel.module->kernels.end(),
             [](const auto& kernel) { return !kernel->unsupported && MemoryDecides(*kernel); });
}

}  // namespace

TimedRun::TimedRun(Launch& launch, GridShadow* shadow, const Cluster** current)
    : launch_(launch),
      shadow_(shadow),
      current_(current),
      figures_(
          Without(AtClock(*FindGpu(launch.options.timing.gpu), launch.options.timing.clock_mhz),
                  launch.options.timing.ablate)),
      costs_(launch.kernel, figures_),
      occupancy_(OccupancyOf(launch, figures_, RegistersOf(launch, costs_))),
      recorder_(LinesOf(launch.kernel), launch.options.timing.record),
      clock_mhz_(ClockOf(launch, figures_, costs_)),
      watch_(launch.kernel) {}

uint64_t TimedRun::TakeOver() {
  for (const Resident& resident : residents_) {
    if (resident.runner && &resident.runner->cluster() == *current_) {
      asked_for_.push_back(resident.timing->now());
    }
  }
  std::vector<uint64_t>& queue = groups_.front().queue;
  if (queue.empty()) return launch_.clusters();
  const uint64_t cluster = queue.back();
  queue.pop_back();
  launch_.timed_clusters[cluster] = true;
  BeginCluster();
  ++taken_;
  return cluster;
}

double TimedRun::TakeInterval() const {
  // The first cluster is asked for when the pipeline begins to fill, so it does not count.
  const size_t count = asked_for_.size();
  if (count < 3) return 0;
  const double span = (asked_for_.back() - asked_for_[1]).cycles();
  return span / static_cast<double>(count - 2);
}

// Chooses the clusters to time: the clusters of one SM, or all clusters if CTAs exchange values.
void TimedRun::Choose() {
  const uint64_t clusters = launch_.clusters();
  const uint64_t groups = std::min<uint64_t>(static_cast<uint64_t>(occupancy_.groups), clusters);
  const int extent = static_cast<int>(launch_.options.cluster.count());
  // A sample does not depend on which cluster takes over which.
  const bool takes_over = launch_.kernel.cancels && launch_.options.timing.sampled;
  everything_ = launch_.kernel.couples || (launch_.kernel.cancels && !takes_over);
  const uint64_t of_sm = (clusters + groups - 1) / groups;
  // The first persistent clusters mostly have more work than the last one, so both are timed. If
  // only the timed clusters run, later grids find what both wrote, less products that are left out.
  const bool ends = of_sm == 1 && groups > 1 &&
                    (launch_.options.timing.sampled || !ClustersAreUniform(launch_.kernel));
  const int timed = static_cast<int>(everything_ ? groups : 1) * extent;
  for (int i = 0; i < (ends ? 2 : 1); ++i) {
    memories_.push_back(std::make_unique<MemorySystem>(figures_, timed,
                                                       static_cast<int>(groups) * extent,
                                                       launch_.options.timing.warm, clock_mhz_));
  }
  machine_ =
      std::make_unique<TimedMachine>(TimedMachine{figures_, costs_, recorder_, {}, 0, clock_mhz_});
  machine_->counts.resize(costs_.size());
  if (everything_) {
    for (uint64_t group = 0; group < groups; ++group) MakeGroup({});
    return;
  }
  if (ends) {
    for (const uint64_t cluster : {uint64_t{0}, clusters - 1}) MakeGroup({cluster});
    enough_ = 2;
    return;
  }
  const uint64_t at_once = static_cast<uint64_t>(occupancy_.ctas);
  enough_ = takes_over                             ? std::min(of_sm, at_once)
            : of_sm > (kTimedRounds + 1) * at_once ? kTimedRounds * at_once + of_sm % at_once
                                                   : std::min(of_sm, kTimedRounds * at_once);
  uint64_t most =
      std::min(of_sm, takes_over ? enough_ + kTaken * at_once : std::max(enough_, kFewest));
  takes_over_ = takes_over;
  if (launch_.options.timing.ctas > 0) {
    most =
        std::clamp<uint64_t>(launch_.options.timing.ctas / static_cast<uint64_t>(extent), 1, most);
  }
  // Spreads the clusters over the grid, in no rhythm that the grid's extents could share.
  std::vector<uint64_t> chosen;
  double place = 0;
  while (chosen.size() < most) {
    const auto cluster = static_cast<uint64_t>(place * static_cast<double>(clusters));
    if (std::find(chosen.begin(), chosen.end(), cluster) == chosen.end()) chosen.push_back(cluster);
    place = std::fmod(place + kGoldenSection, 1.0);
  }
  std::reverse(chosen.begin(), chosen.end());
  MakeGroup(std::move(chosen));
}

void TimedRun::MakeGroup(std::vector<uint64_t> clusters) {
  Group group;
  const double l1 =
      figures_.l1_capacity - static_cast<double>(occupancy_.ctas) * occupancy_.shared_bytes;
  MemorySystem& memory = *memories_[std::min(groups_.size(), memories_.size() - 1)];
  for (uint64_t i = 0; i < launch_.options.cluster.count(); ++i) {
    const uint64_t number = groups_.size() * launch_.options.cluster.count() + i;
    group.sms.push_back(
        std::make_unique<Sm>(figures_, memory, std::max(l1, 16384.0), static_cast<int>(number)));
  }
  group.queue = std::move(clusters);
  for (int slot = 0; slot < occupancy_.ctas; ++slot) {
    Resident resident;
    resident.group = groups_.size();
    resident.slot = static_cast<size_t>(slot);
    residents_.push_back(std::move(resident));
  }
  groups_.push_back(std::move(group));
}

// Returns whether enough clusters of one kind have been timed. Clusters of several kinds need more.
bool TimedRun::Suffices() const { return admitted_ >= enough_ && !ended_.empty() && AreAlike(); }

bool TimedRun::AreAlike() const {
  Cycle shortest = kNever, longest = 0;
  for (const Ended& ended : ended_) {
    shortest = std::min(shortest, ended.ended - ended.started);
    longest = std::max(longest, ended.ended - ended.started);
  }
  return longest <= kAlike * shortest;
}

bool TimedRun::Admit(Resident& resident, Cycle at) {
  Group& group = groups_[resident.group];
  const double warps = static_cast<double>(occupancy_.threads) / kLanes;
  uint64_t index;
  if (everything_) {
    index = launch_.next_cluster++;
    if (index >= launch_.clusters()) return false;
  } else {
    if (group.queue.empty() || Suffices()) return false;
    if (takes_over_ && admitted_ >= enough_) return false;
    index = group.queue.back();
    group.queue.pop_back();
    launch_.timed_clusters[index] = true;
  }
  if (!resident.runner) {
    resident.runner = std::make_unique<ClusterRunner>(launch_, shadow_);
    std::vector<Sm*> sms;
    for (const auto& sm : group.sms) sms.push_back(sm.get());
    resident.timing =
        std::make_unique<ClusterTiming>(*machine_, resident.runner->cluster(), std::move(sms),
                                        resident.slot * static_cast<size_t>(warps));
    resident.runner->cluster().timing = resident.timing.get();
  }
  *current_ = &resident.runner->cluster();
  const double launch =
      std::max(figures_.cta_launch, figures_.cta_base + figures_.warp_launch * warps);
  at = group.sms[0]->launcher.Claim(at, launch) - launch;
  BeginCluster();
  ++admitted_;
  resident.runner->Start(index);
  resident.timing->Restart(at);
  resident.active = true;
  next_->Set(IndexOf(resident), at);
  ++active_;
  watch_.Restart();
  return true;
}

void TimedRun::FindSharing() {
  const uint64_t wave =
      static_cast<uint64_t>(occupancy_.groups) * static_cast<uint64_t>(occupancy_.ctas);
  const uint64_t probed = std::min({wave, launch_.clusters(), kProbed});
  Sharing& sharing = memories_.front()->sharing;
  ProbeSharing(launch_, costs_, probed, wave, &sharing);
  const bool follows = probed == launch_.clusters() && occupancy_.ctas == 1;
  sharing.Extend(static_cast<double>(probed), std::max(1.0, Waves()), follows, figures_.l2_capacity,
                 launch_.global);
  for (auto& memory : memories_) memory->sharing = memories_.front()->sharing;
}

void TimedRun::BeginCluster() {
  const uint64_t before = admitted_ + taken_;
  const uint64_t at_once = static_cast<uint64_t>(occupancy_.ctas);
  if (everything_ || before == 0 || before % at_once != 0 || Waves() <= 1) return;
  for (auto& memory : memories_) memory->sharing.BeginWave();
}

void TimedRun::Run() {
  launch_.timed_clusters.assign(launch_.clusters(), false);
  launch_.skips_products = ProductsAreUnread(launch_);
  Choose();
  // A cluster that runs only to record its reads takes over no other cluster.
  launch_.pending_cluster = [this] { return launch_.clusters(); };
  FindSharing();
  launch_.pending_cluster = nullptr;
  if (takes_over_) launch_.pending_cluster = [this] { return TakeOver(); };
  next_ = std::make_unique<Earliest>(residents_.size());
  // Each SM takes one CTA before any SM takes a second one.
  for (int slot = 0; slot < occupancy_.ctas; ++slot) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      Admit(residents_[group * static_cast<size_t>(occupancy_.ctas) + static_cast<size_t>(slot)],
            0);
    }
  }
  while (active_ > 0 && !launch_.cancelled) Step();
  launch_.pending_cluster = nullptr;
  for (const Resident& resident : residents_) {
    if (resident.runner) CountInstructions(launch_, resident.runner->cluster());
  }
  if (!launch_.cancelled) launch_.timing = std::make_shared<TimingResult>(Result());
}

void TimedRun::Step() {
  const Cycle at = next_->FirstTime();
  if (at >= kNever) return Unblock();
  Resident& first = residents_[next_->First()];
  *current_ = &first.runner->cluster();
  RunUntil(first, at, next_->SecondTime());
  bool alive = false;
  for (const auto& cta : first.runner->cluster().ctas) alive |= cta->live_threads > 0;
  if (!alive) Finish(first);
  Watch();
}

void TimedRun::RunUntil(Resident& resident, Cycle at, Cycle second) {
  AsyncEngines& engines = *resident.runner->cluster().engines;
  const uint64_t round = StepsOfRound();
  uint64_t executed = 0;
  bool ended = false;
  do {
    const Cycle signal = engines.NextSignal();
    if (signal <= at) {
      engines.ActUntil(signal);
      acted_ = true;
    } else {
      Warp& warp = resident.timing->Begin(std::min(second, signal));
      const WarpRunner::Slice slice = WarpRunner::Run(warp, kSliceInstructions, false);
      resident.timing->End(slice.blocked() && !slice.stopped);
      executed += slice.executed;
      ended = warp.live == 0;
      if (at > forgotten_ + kKept) Forget(std::min(at, second));
    }
    at = std::min(resident.timing->NextWarp().at, engines.NextSignal());
    ++steps_;
  } while (at < second && !ended && steps_ < round);
  next_->Set(IndexOf(resident), at);
  resident.runner->CheckLimit(executed);
}

uint64_t TimedRun::StepsOfRound() const {
  const auto warps = static_cast<uint64_t>(occupancy_.threads / kLanes);
  return active_ * warps * launch_.options.cluster.count() * kStepsOfRound;
}

void TimedRun::Watch() {
  if (steps_ < StepsOfRound()) return;
  std::vector<Cluster*> running;
  bool polling = !std::exchange(acted_, false);
  for (Resident& resident : residents_) {
    if (!resident.active) continue;
    running.push_back(&resident.runner->cluster());
    polling &= resident.timing->OnlyPolls();
  }
  steps_ = 0;
  const StallWatch::Finding finding = watch_.Observe(running, polling);
  if (finding != StallWatch::Finding::kNone) FailStuck(running, finding, "");
}

void TimedRun::Forget(Cycle time) {
  // Some earlier claims are kept: an instruction whose operands were ready long ago may still claim
  // time.
  forgotten_ = time;
  const Cycle kept = std::max<Cycle>(0, time - 64);
  for (auto& memory : memories_) memory->Forget(kept);
  for (Group& group : groups_) {
    for (auto& sm : group.sms) sm->Forget(kept);
  }
  SlowDown(time);
}

void TimedRun::SlowDown(Cycle time) {
  const double share = PowerFactor(time.cycles());
  for (auto& memory : memories_) memory->SlowDown(share);
}

// Resumes the run if no warp can run and no engine will signal. Pending operations may help, or
// waits that end alone.
void TimedRun::Unblock() {
  bool any = false;
  for (Resident& resident : residents_) {
    if (!resident.active) continue;
    *current_ = &resident.runner->cluster();
    if (!resident.runner->cluster().engines->Advance(true) &&
        !resident.runner->ExpireTimedWaits()) {
      continue;
    }
    any = true;
    resident.timing->Signal();
    next_->Set(IndexOf(resident), resident.timing->NextWarp().at);
  }
  if (any) return;
  for (Resident& resident : residents_) {
    if (resident.active) resident.runner->Deadlock();
  }
}

void TimedRun::Finish(Resident& resident) {
  resident.runner->Finish();
  const Cycle end =
      std::max(resident.timing->LastEnd(), resident.runner->cluster().engines->LastReady());
  ended_.push_back({resident.timing->started(), end, resident.group});
  resident.active = false;
  next_->Set(IndexOf(resident), kNever);
  --active_;
  watch_.Restart();
  Admit(resident, end + figures_.cta_gap);
}

void RunTimed(Launch& launch, GridShadow* shadow, const Cluster** current) {
  TimedRun(launch, shadow, current).Run();
}

}  // namespace tilelang::emulator
