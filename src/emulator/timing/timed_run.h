// Runs clusters in the order of their clocks.
#ifndef TILELANG_EMULATOR_TIMING_TIMED_RUN_H_
#define TILELANG_EMULATOR_TIMING_TIMED_RUN_H_

#include <memory>
#include <vector>

#include "emulator/core/runner.h"
#include "emulator/core/stall.h"
#include "emulator/timing/cluster_timing.h"
#include "emulator/timing/earliest.h"
#include "emulator/timing/result.h"

namespace tilelang::emulator {

class TimedRun {
 public:
  // `current` is what runs, for reports of errors.
  TimedRun(Launch& launch, GridShadow* shadow, const Cluster** current);
  void Run();

 private:
  // The CTAs of one cluster that an SM (or some, one for each of them) holds.
  struct Resident {
    std::unique_ptr<ClusterRunner> runner;
    std::unique_ptr<ClusterTiming> timing;
    size_t group = 0;
    size_t slot = 0;  // of its SM
    bool active = false;
  };
  // The SMs that clusters run on, and the clusters that will run on them.
  struct Group {
    std::vector<std::unique_ptr<Sm>> sms;
    std::vector<uint64_t> queue;  // of clusters, the next one last
  };
  struct Ended {
    Cycle started = 0, ended = 0;
    size_t group = 0;
  };

  void Choose();
  void MakeGroup(std::vector<uint64_t> clusters);
  // Finds which lines CTAs of a wave read in common.
  void FindSharing();
  // One more cluster of an SM begins.
  void BeginCluster();
  bool Suffices() const;
  // All that were timed took about as long.
  bool AreAlike() const;
  bool Admit(Resident& resident, Cycle at);
  // The next cluster that one which runs takes over, by cluster launch control.
  uint64_t TakeOver();
  // Clusters whose work has been done.
  double Worked() const {
    return static_cast<double>(everything_ ? launch_.clusters() : ended_.size() + taken_);
  }
  // Cycles after which an SM takes over one more cluster; 0: not known.
  double TakeInterval() const;
  void Step();
  // Its warps and engines take turns from `at` on, until others come first.
  void RunUntil(Resident& resident, Cycle at, Cycle second);
  size_t IndexOf(const Resident& resident) const {
    return static_cast<size_t>(&resident - residents_.data());
  }
  void Finish(Resident& resident);
  void Unblock();
  // Turns of warps and engines after which it is asked whether all only poll.
  uint64_t StepsOfRound() const;
  // Finds out when all poll for ever.
  void Watch();
  void Forget(Cycle time);
  // Lets memory know of the clock that the power limit leaves for what has worked so far.
  void SlowDown(Cycle time);
  // The work of an SM so far: cycles of its tensor core and of issue, bytes of cp.async and of all
  // loads, and cycles that loads of warps past L1 have taken, all added up.
  struct Work {
    double tensor = 0, issue = 0, copied = 0, l2 = 0, under_way = 0;
  };
  Work WorkOfSm() const;
  // The clock that the power limit leaves if so many cycles did the work so far, as a share.
  double PowerFactor(double cycles) const;
  TimingResult Result();
  // Returns how often the timed clusters issued an instruction to the machine, and for how many
  // lanes.
  InstructionCount IssuedOf(uint32_t pc) const;
  // Returns, as a share, how much longer the SM works that HBM serves worst than SMs do on average.
  // This holds if no SM takes over work that another SM has left.
  double Unevenness(double span) const;
  // Returns the work of SMs in the grid, over the work of the timed ones.
  double GridOverTimed() const;
  // Rounds of residence of the grid.
  double Waves() const {
    return static_cast<double>(launch_.clusters()) /
           (static_cast<double>(occupancy_.groups) * occupancy_.ctas);
  }
  void Extrapolate(TimingResult* result) const;
  void CountEngines(TimingResult* result) const;
  void ListInstructions(TimingResult* result) const;

  Launch& launch_;
  GridShadow* shadow_;
  const Cluster** current_;
  const Figures figures_;
  CostTable costs_;
  Occupancy occupancy_;
  Recorder recorder_;
  double clock_mhz_;
  // One for all groups; of the ends of a row of clusters that are alone on their SM one for each.
  std::vector<std::unique_ptr<MemorySystem>> memories_;
  std::unique_ptr<TimedMachine> machine_;
  std::vector<Group> groups_;
  std::vector<Resident> residents_;
  std::unique_ptr<Earliest> next_;  // when something of each happens; never of one not active
  std::vector<Ended> ended_;
  bool everything_ = false;       // all clusters are timed
  bool takes_over_ = false;       // timed clusters of a sample take over others
  uint64_t enough_ = 0;           // clusters of one kind
  uint64_t taken_ = 0;            // clusters that others have taken over
  std::vector<Cycle> asked_for_;  // when one was asked for
  uint64_t admitted_ = 0;
  size_t active_ = 0;
  StallWatch watch_;
  uint64_t steps_ = 0;  // of the round that `watch_` will hear of
  bool acted_ = false;  // an engine did, in that round
  Cycle forgotten_ = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_TIMED_RUN_H_
