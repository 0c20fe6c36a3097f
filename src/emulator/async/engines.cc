#include "emulator/async/engines.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tilelang::emulator {
namespace {

// The number of rounds after which an operation acts under the schedule "late" if nobody waits for
// it. A thread that polls its result by ordinary loads therefore makes progress.
constexpr uint64_t kPatience = 4096;

bool IsMbarrierWait(const Split& split) {
  return split.waiting && split.mask != 0 && std::string_view(split.wait.object) == "mbarrier";
}

// Returns the kind of work whose completion a wait for the channel observes.
AsyncWork::Kind WorkOf(ChannelKind kind) {
  return kind == ChannelKind::kWarpgroup     ? AsyncWork::Kind::kWgmma
         : kind == ChannelKind::kTensorStore ? AsyncWork::Kind::kTensorStore
                                             : AsyncWork::Kind::kThreadCopy;
}

}  // namespace

std::unique_ptr<AsyncEngines> MakeAsyncEngines(Cluster& cluster) {
  return std::make_unique<Engines>(cluster);
}

Engines::Engines(Cluster& cluster) : cluster_(cluster) {
  const LaunchOptions& options = cluster.launch.options;
  random_.seed(options.seed * 0x9E3779B97F4A7C15ull + cluster.linear_id);
  if (options.sanitize) sanitizer_ = std::make_unique<Sanitizer>(cluster);
}

Engines::Channel& Engines::ChannelOf(ChannelKind kind, const Issuer& issuer) {
  return channels_[{kind, issuer.cta->rank, issuer.warp, issuer.lane}];
}

void Engines::Queue(ChannelKind kind, PendingStep step) {
  Channel& channel = ChannelOf(kind, step.issuer);
  step.age = next_age_++;
  SetReady(step, channel.ready);
  channel.ready = step.ready;
  if (step.ends_group && cluster_.timing) channel.group_ends.push_back(step.ready);
  channel.steps.push_back(std::move(step));
  while (cluster_.launch.options.schedule == Schedule::kEager && !channel.steps.empty()) {
    ActFirst(channel);
  }
}

void Engines::QueueFree(PendingStep step) {
  step.age = next_age_++;
  SetReady(step, 0);
  free_.push_back(std::move(step));
  if (cluster_.launch.options.schedule == Schedule::kEager) ActFree(free_.size() - 1);
}

void Engines::SetReady(PendingStep& step, Cycle after) {
  if (!cluster_.timing) return;
  step.ready = std::max(after, cluster_.timing->Start(step.issuer, step.work));
  step.work.runs = {};
  last_ready_ = std::max(last_ready_, step.ready);
  if (step.completes.owner) signals_.push(step.ready);
}

void Engines::Act(const PendingStep& step) {
  if (!step.act) return;
  const EngineStep before =
      std::exchange(acting_, step.order);  // steps may queue others, which act
  const Cycle time = cluster_.timing ? cluster_.timing->Enter(step.ready) : 0;
  step.act();
  if (cluster_.timing) cluster_.timing->Leave(time);
  acting_ = before;
}

void Engines::ActFirst(Channel& channel) {
  PendingStep step = std::move(channel.steps.front());
  channel.steps.pop_front();
  if (step.ends_group) ++channel.finished;
  Act(step);
}

void Engines::ActFree(size_t index) {
  PendingStep step = std::move(free_[index]);
  free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(index));
  Act(step);
}

uint32_t Engines::OpenGroup(ChannelKind kind, const Issuer& issuer) {
  return ChannelOf(kind, issuer).committed + 1;
}

void Engines::QueueMarker(ChannelKind kind, const Issuer& issuer, std::function<void()> act) {
  PendingStep marker;
  marker.issuer = issuer;
  marker.name = "commit_group";
  marker.ends_group = true;
  marker.act = std::move(act);
  Queue(kind, std::move(marker));
}

void Engines::CommitGroup(ChannelKind kind, const Issuer& issuer) {
  ++ChannelOf(kind, issuer).committed;
  QueueMarker(kind, issuer, {});
}

void Engines::CommitBulkGroup(const Issuer& issuer) {
  ++ChannelOf(ChannelKind::kBulkRead, issuer).committed;
  ++ChannelOf(ChannelKind::kBulkWrite, issuer).committed;
  QueueMarker(ChannelKind::kBulkRead, issuer,
              [this, issuer] { QueueMarker(ChannelKind::kBulkWrite, issuer, {}); });
}

void Engines::Finish(ChannelKind kind, const Issuer& issuer) {
  Channel& channel = ChannelOf(kind, issuer);
  while (!channel.steps.empty()) ActFirst(channel);
  if (cluster_.timing) cluster_.timing->Await(issuer, WorkOf(kind), channel.ready);
}

uint32_t Engines::FinishGroups(ChannelKind kind, const Issuer& issuer, uint32_t pending,
                               const Issuer& waiter) {
  Channel& channel = ChannelOf(kind, issuer);
  while (channel.committed - channel.finished > pending) ActFirst(channel);
  const uint32_t done = channel.committed - std::min(channel.committed, pending);
  if (cluster_.timing && done > 0) {
    cluster_.timing->Await(waiter, WorkOf(kind), channel.group_ends[done - 1]);
  }
  return done;
}

Cycle Engines::NextSignal() const { return signals_.empty() ? kNever : signals_.top(); }

void Engines::ActUntil(Cycle now) {
  while (!signals_.empty() && signals_.top() <= now) signals_.pop();
  for (size_t i = 0; i < free_.size();) {
    if (free_[i].ready <= now) {
      ActFree(i);
    } else {
      ++i;
    }
  }
  const auto signals = [&](const PendingStep& step) {
    return step.completes.owner && step.ready <= now;
  };
  for (auto& [key, channel] : channels_) {
    while (std::any_of(channel.steps.begin(), channel.steps.end(), signals)) ActFirst(channel);
  }
}

ActorId Engines::ActorOf(ActorKind kind, const Issuer& issuer, const char* prefix, bool per_warp) {
  const int lane = per_warp ? -1 : issuer.lane;
  const auto [found, added] =
      actors_.try_emplace({kind, issuer.cta->rank, issuer.warp, lane}, kNoActor);
  if (added) {
    std::string name = std::string(prefix) + " of warp " + std::to_string(issuer.warp);
    if (!per_warp) name += ", lane " + std::to_string(issuer.lane);
    if (issuer.cta->rank != 0) name += " of CTA rank " + std::to_string(issuer.cta->rank);
    found->second = sanitizer_->NewActor(kind, std::move(name));
  }
  return found->second;
}

std::set<BarrierRef> Engines::WaitedBarriers() const {
  std::set<BarrierRef> waited;
  for (const auto& cta : cluster_.ctas) {
    for (const auto& warp : cta->warps) {
      for (const Split& split : warp->splits()) {
        if (!IsMbarrierWait(split)) continue;
        const uint32_t address = static_cast<uint32_t>(split.wait.address);
        waited.insert({cluster_.SharedOwner(address), address & 0xFFFFFF});
      }
    }
  }
  return waited;
}

bool Engines::ActForWaiter() {
  const std::set<BarrierRef> waited = WaitedBarriers();
  const auto helps = [&](const PendingStep& step) {
    return step.completes.owner != nullptr && waited.count(step.completes) != 0;
  };
  const PendingStep* oldest = nullptr;
  Channel* channel = nullptr;
  for (const PendingStep& step : free_) {
    if (helps(step) && (!oldest || step.age < oldest->age)) oldest = &step;
  }
  for (auto& [key, candidate] : channels_) {
    const auto found = std::find_if(candidate.steps.begin(), candidate.steps.end(), helps);
    if (found == candidate.steps.end() || (oldest && oldest->age < found->age)) continue;
    oldest = &*found;
    channel = &candidate;
  }
  if (!oldest) return false;
  if (!channel) {
    ActFree(
        static_cast<size_t>(std::find_if(free_.begin(), free_.end(),
                                         [&](const PendingStep& step) { return &step == oldest; }) -
                            free_.begin()));
    return true;
  }
  const uint64_t age = oldest->age;
  while (!channel->steps.empty() && channel->steps.front().age <= age) ActFirst(*channel);
  return true;
}

bool Engines::ActOldest() {
  Channel* oldest = nullptr;
  for (auto& [key, channel] : channels_) {
    if (channel.steps.empty()) continue;
    if (!oldest || channel.steps.front().age < oldest->steps.front().age) oldest = &channel;
  }
  if (!free_.empty() && (!oldest || free_.front().age < oldest->steps.front().age)) {
    ActFree(0);
    return true;
  }
  if (!oldest) return false;
  ActFirst(*oldest);
  return true;
}

bool Engines::RarelyHappens() {
  return cluster_.launch.options.schedule == Schedule::kRandom && random_() % 8 == 0;
}

bool Engines::ActRandom() {
  std::vector<Channel*> candidates;
  for (auto& [key, channel] : channels_) {
    if (!channel.steps.empty()) candidates.push_back(&channel);
  }
  const size_t count = candidates.size() + free_.size();
  if (count == 0) return false;
  const size_t pick = random_() % count;
  if (pick < candidates.size()) {
    ActFirst(*candidates[pick]);
  } else {
    ActFree(pick - candidates.size());
  }
  return true;
}

bool Engines::Advance(bool stalled) {
  if (cluster_.launch.options.schedule == Schedule::kRandom) {
    if (stalled) return ActRandom();
    bool acted = false;
    while (random_() % 2 == 0 && ActRandom()) acted = true;
    return acted;
  }
  if (stalled) {
    idle_rounds_ = 0;
    return ActForWaiter() || ActOldest();
  }
  if (++idle_rounds_ < kPatience) return false;
  idle_rounds_ = 0;
  return ActOldest();
}

void Engines::Drain() {
  while (ActOldest()) {
  }
}

std::string Engines::Describe() const {
  std::string text;
  const auto add = [&](const PendingStep& step) {
    if (step.ends_group) return;
    text += std::string(text.empty() ? "" : "\n") + step.name;
    if (step.issuer.op) {
      const Kernel& kernel = cluster_.kernel();
      text += " of warp " + std::to_string(step.issuer.warp) + " at line " +
              std::to_string(kernel.sources[step.issuer.op->source].ptx_line);
    }
  };
  for (const PendingStep& step : free_) add(step);
  for (const auto& [key, channel] : channels_) {
    for (const PendingStep& step : channel.steps) add(step);
  }
  return text;
}

}  // namespace tilelang::emulator
