#include "emulator/timing/probe.h"

#include <algorithm>
#include <utility>

#include "emulator/core/runner.h"
#include "emulator/timing/cluster_timing.h"

namespace tilelang::emulator {
namespace {

// What one cluster runs, at most: instructions of a warp, rounds of all of them, lines.
constexpr uint64_t kWarpInstructions = 1000;
constexpr int kRounds = 24;
constexpr uint64_t kLines = 1024;

// No clock: only hears what is read.
class Listener : public Timing {
 public:
  Listener(const CostTable& costs, const Kernel& kernel, Sharing& sharing)
      : costs_(costs), kernel_(kernel), sharing_(sharing) {}

  void Restart(uint64_t cluster) {
    cluster_ = cluster;
    lines_ = 0;
  }

  bool MayIssue(const Warp&, uint32_t pc) override { return lines_ < kLines && !WritesGlobal(pc); }
  void Issue(Warp& warp, uint32_t pc, uint32_t mask) override {
    const OpCost& cost = costs_[pc];
    const AddressOperand* from = cost.unit == Unit::kCopy ? cost.source : cost.address;
    if (!from || mask == 0 || !(cost.load || cost.unit == Unit::kCopy)) return;
    if (cost.unit != Unit::kGlobal && cost.unit != Unit::kCopy) return;
    uint64_t addresses[kLanes] = {};
    ForEachLane(mask, [&](int lane) { addresses[lane] = from->At(warp, lane); });
    CollectLines(addresses, mask, std::max<int>(1, cost.bytes), &access_);
    for (const LineAccess& line : access_) Note(line.line, warp.cta);
  }
  void Done(Warp&, uint32_t, uint32_t) override {}
  Cycle Clock(const Warp&) const override { return 0; }
  double Nanoseconds(const Warp&) const override { return 0; }
  Cycle Start(const Issuer& issuer, const AsyncWork& work) override {
    if (work.kind != AsyncWork::Kind::kBulkLoad || work.multicast) return 0;
    for (const GlobalRun& run : work.runs) {
      for (uint64_t line = run.address / 128; line <= (run.address + run.bytes - 1) / 128; ++line) {
        Note(line, *issuer.cta);
      }
    }
    return 0;
  }
  Cycle Enter(Cycle) override { return 0; }
  void Leave(Cycle) override {}
  void Await(const Issuer&, AsyncWork::Kind, Cycle) override {}
  void Arrive(const void*, const Issuer&) override {}
  void Complete(const void*, bool) override {}
  void Pass(const void*, Warp&, bool) override {}

 private:
  void Note(uint64_t line, const Cta& cta) {
    sharing_.Note(line, cluster_ * 16 + cta.rank);
    ++lines_;
  }

  bool WritesGlobal(uint32_t pc) const {
    const OpCost& cost = costs_[pc];
    if (cost.unit == Unit::kGlobal || cost.unit == Unit::kGeneric) return cost.store;
    if (cost.unit != Unit::kAsync) return false;
    const Spelling s(kernel_.sources[kernel_.code[pc].source].spelling);
    // A store names its destination first.
    for (size_t i = 1; i < s.size(); ++i) {
      if (s.part(i).starts_with("shared")) return false;
      if (s.part(i) == "global") return true;
    }
    return s.Is("multimem") || s.Is("clusterlaunchcontrol") || s.Is("st") || s.Is("red");
  }

  const CostTable& costs_;
  const Kernel& kernel_;
  Sharing& sharing_;
  std::vector<LineAccess> access_;
  uint64_t cluster_ = 0, lines_ = 0;
};

// The launch without its sanitizer, and what it collects, for a while.
class Quiet {
 public:
  explicit Quiet(Launch& launch)
      : launch_(launch),
        sanitize_(std::exchange(launch.options.sanitize, false)),
        observer_(std::exchange(launch.observer, nullptr)),
        warnings_(launch.warnings),
        output_(launch.output) {}
  ~Quiet() {
    launch_.options.sanitize = sanitize_;
    launch_.observer = observer_;
    launch_.warnings = std::move(warnings_);
    launch_.output = std::move(output_);
  }

 private:
  Launch& launch_;
  bool sanitize_;
  AccessObserver* observer_;
  std::map<std::pair<std::string, int>, Warning> warnings_;
  std::map<uint64_t, std::string> output_;
};

void RunFirst(ClusterRunner& runner) {
  Cluster& cluster = runner.cluster();
  for (int round = 0; round < kRounds; ++round) {
    bool progress = false;
    for (auto& cta : cluster.ctas) {
      for (auto& warp : cta->warps) {
        if (!warp->live) continue;
        progress |= WarpRunner::Run(*warp, kWarpInstructions, false).executed > 0;
      }
    }
    if (!cluster.engines->Advance(!progress) && !progress) return;
  }
}

}  // namespace

void ProbeSharing(Launch& launch, const CostTable& costs, uint64_t clusters, Sharing* sharing) {
  const Quiet quiet(launch);
  Listener listener(costs, launch.kernel, *sharing);
  ClusterRunner runner(launch, nullptr);
  runner.cluster().timing = &listener;
  for (uint64_t i = 0; i < clusters && !launch.cancelled; ++i) {
    try {
      listener.Restart(i);
      runner.Start(i);
      RunFirst(runner);
    } catch (const EmulatorError&) {
      // What is wrong is reported when the cluster runs.
    }
  }
}

}  // namespace tilelang::emulator
