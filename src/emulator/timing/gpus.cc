// Lists the GPUs that launches can be timed for.
#include "emulator/timing/figures.h"

namespace tilelang::emulator {

const std::vector<const Figures*>& TimedGpus() {
  static const std::vector<const Figures*> gpus = [] {
    std::vector<const Figures*> all;
    for (const Gpus* each : {&Sm80Gpus(), &Sm90Gpus(), &Sm100Gpus(), &Sm103Gpus(), &Sm120Gpus()}) {
      for (const Figures& figures : *each) all.push_back(&figures);
    }
    return all;
  }();
  return gpus;
}

const Figures* UsualGpu(const std::string& arch) {
  for (const Figures* each : TimedGpus()) {
    if (each->arch == arch) return each;
  }
  return nullptr;
}

const Figures* FindGpu(const std::string& name) {
  for (const Figures* each : TimedGpus()) {
    if (each->gpu == name) return each;
  }
  return nullptr;
}

Figures AtClock(Figures figures, double clock_mhz) {
  if (!figures.l2_own_latency || clock_mhz == 0) return figures;
  const int beyond = figures.dram_latency - figures.l2_latency;
  figures.l2_latency = static_cast<int>(figures.l2_latency * clock_mhz / figures.clock_mhz + 0.5);
  figures.dram_latency = figures.l2_latency + beyond;
  return figures;
}

}  // namespace tilelang::emulator
