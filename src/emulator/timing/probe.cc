#include "emulator/timing/probe.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "emulator/core/warp_loop.h"
#include "emulator/timing/cluster_timing.h"
#include "emulator/timing/lane_addresses.h"

namespace tilelang::emulator {
namespace {

// Limits for one cluster: instructions of a warp, rounds of all warps, different lines.
constexpr uint64_t kWarpInstructions = 1000;
constexpr int kRounds = 24;
constexpr uint64_t kLines = 1024;
// Clusters of the second wave whose reads are compared.
constexpr uint64_t kCompared = 8;

// Has no clock, and only records the loads of a cluster.
class Listener : public Timing {
 public:
  Listener(const CostTable& costs, const Kernel& kernel, Sharing& sharing)
      : costs_(costs), kernel_(kernel), sharing_(sharing), hears_(kernel.code.size() + 1) {
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t pc = static_cast<uint32_t>(costs.size()); pc-- > 0;) {
        if (!hears_[pc]) changed |= hears_[pc] = MayHear(pc);
      }
    }
  }

  // Returns whether a lane may still come to a load.
  bool MayHear(const Warp& warp) const {
    return std::any_of(warp.splits().begin(), warp.splits().end(),
                       [&](const Split& split) { return hears_[split.pc]; });
  }

  void Restart(uint64_t cluster, bool later) {
    cluster_ = cluster;
    later_ = later;
    lines_.clear();
  }

  void Run(Warp& warp, uint64_t budget, bool boosted, WarpSlice* slice) override {
    WarpRunner::RunOne(this, warp, budget, boosted, slice);
  }
  Turn Issue(Warp& warp, uint32_t pc, uint32_t mask) {
    if (lines_.size() >= kLines || WritesGlobal(pc)) return Turn::kLater;
    const OpCost& cost = costs_[pc];
    const bool loads = cost.unit == Unit::kGlobal && cost.load;
    if ((loads || cost.unit == Unit::kCopy) && mask != 0) NoteLoad(warp, cost, mask);
    return Turn::kIssued;
  }
  void Done(Warp&, uint32_t, uint32_t) {}
  Cycle Clock(const Warp&) const override { return 0; }
  double Nanoseconds(const Warp&) const override { return 0; }
  Cycle Start(const Issuer& issuer, const AsyncWork& work) override {
    if (work.kind != AsyncWork::Kind::kBulkLoad || work.multicast) return 0;
    for (const GlobalRun& run : work.runs) {
      for (uint64_t line = run.address / 128; line <= (run.address + run.bytes - 1) / 128; ++line) {
        Note({line}, *issuer.cta);
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
  void NoteLoad(Warp& warp, const OpCost& cost, uint32_t mask) {
    const AddressOperand* from = cost.unit == Unit::kCopy ? cost.source : cost.address;
    if (!from) return;
    uint64_t addresses[kLanes] = {};
    ForEachLane(mask, [&](int lane) { addresses[lane] = from->At(warp, lane); });
    CollectLines(addresses, mask, std::max<int>(1, cost.bytes), &access_);
    for (const LineAccess& access : access_) Note(access, warp.cta);
  }

  void Note(const LineAccess& access, const Cta& cta) {
    if (!lines_.insert(access.line).second && later_) return;
    later_ ? sharing_.Compare(access.line)
           : sharing_.Note(access.line, access.sectors, cluster_, cta.rank);
  }

  // Returns whether this instruction, or one that may come after it, is a load.
  bool MayHear(uint32_t pc) {
    const OpCost& cost = costs_[pc];
    if ((cost.unit == Unit::kGlobal && cost.load) || cost.unit == Unit::kCopy ||
        cost.unit == Unit::kAsync) {
      return true;
    }
    if (cost.unit != Unit::kBranch) return hears_[pc + 1];
    const Op& op = kernel_.code[pc];
    const Spelling s(kernel_.sources[op.source].spelling);
    if (s.Is("bra")) return hears_[op.target] || (op.guard != kNoSlot && hears_[pc + 1]);
    if (s.Is("ret") || s.Is("exit")) return calls_ || hears_[pc + 1];
    // The target of a call or of a jump by table is not known.
    calls_ = true;
    return true;
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
  std::vector<bool> hears_;  // by instruction
  bool calls_ = false;
  std::vector<LineAccess> access_;
  uint64_t cluster_ = 0;
  bool later_ = false;
  std::unordered_set<uint64_t> lines_;
};

// Turns off the sanitizer of the launch, and the collection of findings, as long as it lives.
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

void RunFirst(ClusterRunner& runner, const Listener& listener) {
  Cluster& cluster = runner.cluster();
  for (int round = 0; round < kRounds; ++round) {
    bool progress = false, hears = false;
    for (auto& cta : cluster.ctas) {
      for (auto& warp : cta->warps) {
        if (!warp->live) continue;
        progress |= WarpRunner::Run(*warp, kWarpInstructions, false).executed > 0;
        hears |= warp->live && listener.MayHear(*warp);
      }
    }
    if (!hears && cluster.engines->Describe().empty()) return;
    if (!cluster.engines->Advance(!progress) && !progress) return;
  }
}

}  // namespace

void ProbeSharing(Launch& launch, const CostTable& costs, uint64_t clusters, uint64_t wave,
                  Sharing* sharing) {
  const Quiet quiet(launch);
  Listener listener(costs, launch.kernel, *sharing);
  ClusterRunner runner(launch, nullptr);
  runner.cluster().timing = &listener;
  const auto ask = [&](uint64_t cluster, bool later) {
    if (launch.cancelled || cluster >= launch.clusters()) return;
    try {
      listener.Restart(cluster, later);
      runner.Start(cluster);
      RunFirst(runner, listener);
    } catch (const EmulatorError&) {
      // The cluster reports its errors when it runs.
    }
  };
  for (uint64_t i = 0; i < clusters; ++i) ask(i, false);
  if (clusters < wave) return;
  for (uint64_t i = 0; i < kCompared; ++i) ask(wave + i * wave / kCompared, true);
}

}  // namespace tilelang::emulator
