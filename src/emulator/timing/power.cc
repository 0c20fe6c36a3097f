// Computes the clock under the power limit.
#include <algorithm>

#include "emulator/timing/timed_run.h"

namespace tilelang::emulator {

TimedRun::Work TimedRun::WorkOfSm() const {
  Work work;
  double sms = 0;
  for (const Group& group : groups_) {
    for (const auto& sm : group.sms) {
      ++sms;
      work.copied += sm->copied();
      work.under_way += sm->under_way();
      work.tensor += sm->tensor.served() - sm->scale_cycles;
      for (const SubCore& core : sm->cores) {
        work.tensor += core.mma.served() / kSubCores;
        work.issue += core.issue.served() / kSubCores;
      }
    }
  }
  for (const auto& memory : memories_) work.l2 += memory->l2_bytes();
  return {work.tensor / sms, work.issue / sms, work.copied / sms, work.l2 / sms,
          work.under_way / sms};
}

// Returns the share f of the clock that the power limit leaves. Work of the SMs takes power by the
// cycle. Work of L2, which has a clock of its own, takes power by the second. With w of the first
// and v of the second kind at the full clock, f = 1 - slope (w + f v - free).
double TimedRun::PowerFactor(double cycles) const {
  const Figures& f = figures_;
  const Work work = WorkOfSm();
  const double active =
      static_cast<double>(occupancy_.groups) * static_cast<double>(launch_.options.cluster.count());
  const double sms = std::min(active, static_cast<double>(launch_.options.grid.count()));
  const double of_cycles = (work.tensor + f.power_issue * work.issue + f.power_copy * work.copied) /
                           cycles * sms / f.sms;
  const double l2_tbs = work.l2 / cycles * sms * clock_mhz_ * 1e-6;
  const double share =
      (1 - f.power_slope * (of_cycles - f.power_free)) / (1 + f.power_slope * f.power_l2 * l2_tbs);
  return std::min(1.0, share);
}

}  // namespace tilelang::emulator
