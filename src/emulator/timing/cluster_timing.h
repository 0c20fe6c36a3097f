// The clock of a cluster: times its warps' instructions and its engines' operations.
#ifndef TILELANG_EMULATOR_TIMING_CLUSTER_TIMING_H_
#define TILELANG_EMULATOR_TIMING_CLUSTER_TIMING_H_

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/timing/earliest.h"
#include "emulator/timing/op_cost.h"
#include "emulator/timing/recorder.h"
#include "emulator/timing/sm.h"
#include "emulator/timing/warp_clock.h"

namespace tilelang::emulator {

// Holds the data that the clusters of a launch share.
struct TimedMachine {
  const Figures& figures;
  const CostTable& costs;
  Recorder& recorder;
  // Counts of an instruction.
  struct Count {
    int64_t wavefronts = 0, conflicts = 0, sectors = 0;
    InstructionCount left_out;  // executed, but ptxas makes nothing of it
  };
  std::vector<Count> counts;
  double tensor_flops = 0;  // of engines
  double clock_mhz = 0;
};

class ClusterTiming final : public Timing {
 public:
  // `sms`: one for each CTA of the cluster, on each of which others hold the warps before
  // `first_warp`.
  ClusterTiming(TimedMachine& machine, Cluster& cluster, std::vector<Sm*> sms, size_t first_warp);
  // The cluster starts.
  void Restart(Cycle at);
  // The earliest time of a warp that can run, kNever if none can; which one that is, and the
  // earliest time of the others.
  struct Next {
    Cycle at = kNever, others = kNever;
    size_t warp = 0;
  };
  const Next& NextWarp();
  // Lets that warp run until other warps come first: warps of the cluster, and others from the time
  // `others` on.
  Warp& Begin(Cycle others);
  // It has run.
  void End(bool blocked);
  // Something has happened that warps may have waited for.
  void Signal() { ++signals_; }
  Cycle started() const { return started_; }
  // Returns the time of the operation that acts now.
  Cycle now() const { return now_; }
  // Since the last call every warp has polled, or waits.
  bool OnlyPolls();
  // Returns the time at which the last warp has ended.
  Cycle LastEnd() const;

  void Run(Warp& warp, uint64_t budget, bool boosted, WarpSlice* slice) override;
  Turn Issue(Warp& warp, uint32_t pc, uint32_t mask);
  void Done(Warp& warp, uint32_t pc, uint32_t mask);
  Cycle Clock(const Warp& warp) const override { return ClockOf(warp).front; }
  double Nanoseconds(const Warp& warp) const override {
    return Clock(warp).cycles() * 1e3 / machine_.clock_mhz;
  }
  Cycle Start(const Issuer& issuer, const AsyncWork& work) override;
  Cycle Enter(Cycle now) override;
  void Leave(Cycle before) override;
  void Await(const Issuer& issuer, AsyncWork::Kind kind, Cycle ready) override;
  void Arrive(const void* barrier, const Issuer& issuer) override;
  void Complete(const void* barrier, bool named) override;
  void Pass(const void* barrier, Warp& warp, bool named) override;

 private:
  struct BarrierClock {
    Cycle gathering = 0, completed = 0;
    Reason who = Reason::kBarrierThreads, completed_by = Reason::kBarrierThreads;
    int32_t slice = -1, completed_slice = -1;
    int arrivals = 0;  // of the running phase
  };
  struct Issued {     // an instruction that goes to a pipe
    Cycle at = 0;     // from when its operands are there
    Cycle ready = 0;  // its results
    Reason result = Reason::kDependency;
    Reason delay = Reason::kNotSelected;  // why it did not start at once
  };

  // The turn of a warp among the warps of its cluster.
  struct Place {
    Cycle front = 0;    // kNever: it has ended
    uint64_t seen = 0;  // signals before it was blocked; kRuns: it is not
    Warp* warp = nullptr;
    WarpClock* clock = nullptr;
    Sm* sm = nullptr;  // where it runs
    SubCore* core = nullptr;
  };
  static constexpr uint64_t kRuns = ~uint64_t{0};

  size_t IndexOf(const Warp& warp) const { return warp.cta.rank * warps_ + warp.index; }
  WarpClock& ClockOf(const Warp& warp) const { return *clocks_[IndexOf(warp)]; }
  WarpClock& ClockOf(const Issuer& issuer) {
    return *clocks_[issuer.cta->rank * warps_ + static_cast<size_t>(issuer.warp)];
  }
  Sm& SmOf(const Warp& warp) { return *sms_[warp.cta.rank]; }
  uint32_t PcOf(const Issuer& issuer) const;

  Cycle TimeOf(const Place& place) const { return place.seen == signals_ ? kNever : place.front; }
  const Next& FindNext();
  // The running warp goes on until it is far enough ahead of others.
  void GiveWayTo(Cycle others);

  // The next three functions are for instructions that are not plain. They return whether other
  // warps come first, though not before all instructions; whether ptxas emits nothing for it this
  // time; and whether Done issues it later.
  bool ComesLater(WarpClock& clock, const OpCost& cost);
  static bool IsLeftOut(WarpClock& clock, uint32_t pc, const OpCost& cost, Cycle ready);
  bool Holds(const Warp& warp, WarpClock& clock, const OpCost& cost, uint32_t mask);
  void AwaitProducts(WarpClock& clock, uint32_t wait);
  Turn LeaveOut(uint32_t pc, const OpCost& cost, uint32_t mask);
  // Issues instructions that are not quick.
  Turn IssueSlowly(Warp& warp, uint32_t pc, const OpCost& cost, uint32_t mask);
  template <bool quick>
  void Commit(Warp& warp, WarpClock& clock, uint32_t pc, const OpCost& cost, uint32_t mask,
              Cycle now, Cycle ready);
  template <bool quick>
  void Record(WarpClock& clock, uint32_t pc, const OpCost& cost, const Issued& issued, Cycle end,
              Cycle now, Cycle ready);
  // Takes a pipe from `at` on, or later for `delay`; `longer` is a share of its cycles.
  static Issued Take(Capacity& pipe, const OpCost& cost, Cycle at, Reason delay,
                     double longer = 0) {
    const Cycle start = StartIn(pipe, cost, at, longer);
    return {start, start + cost.done, Reason::kDependency, delay};
  }
  static Cycle StartIn(Capacity& pipe, const OpCost& cost, Cycle at, double longer) {
    const Cycle takes = longer == 0 ? cost.takes : (1 + longer) * cost.takes;
    return pipe.ClaimCycles(at, takes) - takes;
  }
  // Returns how much longer arithmetic occupies a pipe while the tensor core accumulates in
  // registers.
  double BesideWgmma(const Sm& sm, const SubCore& core, const Capacity* pipe, Cycle at) const {
    if (!beside_wgmma_) return 0;
    const Figures& f = machine_.figures;
    const double most = pipe == &core.alu    ? f.alu_beside_wgmma
                        : pipe == &core.fma  ? f.fma_beside_wgmma
                        : pipe == &core.mufu ? f.mufu_beside_wgmma
                                             : 0;
    return most == 0 ? 0 : most * sm.tensor.ShareAt(at);
  }
  // Sends what is no arithmetic to its unit from `at` on.
  Issued Execute(Warp& warp, uint32_t pc, const OpCost& cost, uint32_t mask, Cycle at);
  Issued Memory(Warp& warp, uint32_t pc, const OpCost& cost, uint32_t mask, Cycle at);
  Issued SharedAccess(uint32_t pc, const OpCost& cost, uint32_t mask, Cycle at,
                      const uint64_t* addresses);
  Issued GlobalAccess(uint32_t pc, const OpCost& cost, uint32_t mask, Cycle at,
                      const uint64_t* addresses);
  Issued ThreadCopy(Warp& warp, uint32_t pc, const OpCost& cost, uint32_t mask, Cycle at);
  // Returns the earliest time at which a full tensor pipe lets a warp issue.
  Cycle Admission(const Warp& warp, const OpCost& cost);

  Cycle Copy(const Issuer& issuer, const AsyncWork& work, Sm& sm);
  Cycle Matrix(const Issuer& issuer, const AsyncWork& work, Sm& sm);
  struct TensorTime {
    double cycles = 0, wavefronts = 0, latency = 0;
  };
  TensorTime TimeOf(const AsyncWork& work) const;
  Cycle TensorPipe(Sm& sm, Cycle from, double cycles, double wavefronts);
  // Records a slice of an engine on the SM of the CTA of that rank.
  void EngineSlice(int32_t* track, const char* name, const Issuer& issuer, size_t rank, Cycle begin,
                   Cycle end);

  TimedMachine& machine_;
  Cluster& cluster_;
  const OpCost* costs_;  // by instruction
  std::vector<Sm*> sms_;
  size_t warps_;  // of a CTA
  size_t first_warp_;
  std::vector<std::unique_ptr<WarpClock>> clocks_;
  std::vector<Place> places_;  // in the order of clocks_
  Earliest turns_;             // of warps that are not blocked
  Next next_;
  uint64_t next_signals_ = kRuns;  // when these were found; kRuns: they are to be found anew
  size_t running_ = 0;             // the warp that runs
  WarpClock* clock_ = nullptr;     // of its place
  Sm* sm_ = nullptr;
  SubCore* core_ = nullptr;
  uint64_t seen_signals_ = 0;  // before it did
  uint32_t live_ = 0;          // its lanes then
  std::map<const void*, BarrierClock> barriers_;
  // Ends of the matrix instructions of a warpgroup, or of a thread's pipe, that may still run.
  std::map<std::pair<uint32_t, int>, std::deque<Cycle>> tensor_queues_;
  std::vector<LineAccess> lines_;
  std::vector<Cycle> arrivals_;  // of the lines of the last load by TMA
  uint64_t signals_ = 0;
  Cycle started_ = 0;
  Cycle others_ = kNever;  // when they come
  // The running warp goes on until then.
  Cycle limit_ = kNever, arithmetic_limit_ = kNever;
  bool beside_wgmma_ = false;  // the tensor core of its SM has worked
  Cycle now_ = 0;              // of the running instruction, or of the engine that acts
  Cycle operands_at_ = 0;      // of the running instruction
  int acting_ = 0;             // engines that act, one within the other
  int32_t acting_slice_ = -1;
  Reason acting_reason_ = Reason::kBarrierTma;
  std::map<Cycle, std::pair<int32_t, Reason>> engine_ends_;  // which slice ended then
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_CLUSTER_TIMING_H_
