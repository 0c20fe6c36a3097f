// Extrapolates the CTAs that were timed in detail to the whole grid.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "emulator/timing/timed_run.h"

namespace tilelang::emulator {
double TimedRun::Unevenness(double span) const {
  return figures_.dram_uneven + figures_.dram_uneven_load * WorkOfSm().under_way / span;
}

double TimedRun::GridOverTimed() const {
  const double clusters = static_cast<double>(launch_.clusters());
  const double groups = std::min(static_cast<double>(occupancy_.groups), clusters);
  return clusters / Worked() * static_cast<double>(groups_.size()) / groups;
}

// Computes the time of the grid. Clusters end one after the other, and clusters that are not timed
// take as long as the last rounds.
void TimedRun::Extrapolate(TimingResult* result) const {
  const double cluster = static_cast<double>(launch_.options.cluster.count());
  std::vector<double> ends, durations;
  for (const Ended& ended : ended_) {
    ends.push_back(ended.ended.cycles());
    durations.push_back((ended.ended - ended.started).cycles());
  }
  std::sort(ends.begin(), ends.end());
  const double span = ends.back();
  const double mean =
      std::accumulate(durations.begin(), durations.end(), 0.0) / static_cast<double>(ends.size());
  const uint64_t clusters = launch_.clusters();
  const double groups =
      static_cast<double>(std::min<uint64_t>(static_cast<uint64_t>(occupancy_.groups), clusters));
  const uint64_t at_once = static_cast<uint64_t>(occupancy_.ctas);
  const uint64_t of_sm =
      (clusters + static_cast<uint64_t>(groups) - 1) / static_cast<uint64_t>(groups);
  result->span_cycles = span;
  result->cta_cycles = mean;
  result->waves = static_cast<double>(clusters) / (groups * static_cast<double>(at_once));
  result->wave_cycles = ends[std::min<size_t>(ends.size(), at_once * groups_.size()) - 1];
  result->grid_cycles = span;
  const double timed = Worked();
  double missing = everything_ ? 0 : static_cast<double>(of_sm) - timed;
  if (const double interval = TakeInterval(); missing > 0 && interval > 0) {
    result->grid_cycles += missing * interval;
  } else if (!everything_ && of_sm > 1 && !AreAlike()) {
    // CTAs of different length fill each other's gaps, except at the end.
    result->grid_cycles = static_cast<double>(clusters) / (groups * static_cast<double>(at_once)) *
                              (mean + figures_.cta_gap) +
                          mean / 2;
  } else if (missing > 0) {
    // Once all places of an SM are taken, it ends clusters at a constant rate. HBM begins slowly,
    // so clusters that end during that time say little about the rate.
    size_t first = std::min<size_t>(at_once, ends.size() - 1);
    const double begun = 2 * figures_.dram_start;
    while (first > 0 && first + 2 < ends.size() && ends[first - 1] < begun) ++first;
    const double rate = first > 0 && ends.back() > ends[first - 1]
                            ? (timed - static_cast<double>(first)) / (ends.back() - ends[first - 1])
                            : timed / span;
    // A place runs one CTA after the other.
    const double in_turn = static_cast<double>(of_sm) / static_cast<double>(at_once);
    result->grid_cycles =
        std::max(result->grid_cycles + missing / rate, in_turn * (mean + figures_.cta_gap));
  }
  // The grid takes at least as long as HBM and L2 need for their requests, including the requests
  // that are still in their queues at the end.
  const bool all_resident = static_cast<double>(clusters) <= groups * static_cast<double>(at_once);
  const double uneven = all_resident ? Unevenness(span) : 0;
  const double rest = GridOverTimed(), scale = static_cast<double>(clusters) / timed;
  double busy = 0;
  for (const auto& memory : memories_) {
    const double once = memory->once_bytes(), all = memory->dram_bytes();
    const double dram = memory->dram().busy().cycles();
    const double of_grid = all > 0 ? dram * ((all - once) * rest + once) / all : 0;
    busy = std::max({busy, (1 + uneven) * of_grid, memory->l2().busy().cycles() * rest});
    result->dram_bytes += (all - once) * scale + once * scale / rest;
    result->l2_bytes += memory->l2_bytes();
  }
  const double ramp = std::min(figures_.dram_ramp, busy / 10);
  result->grid_cycles = std::max(result->grid_cycles, busy + figures_.dram_latency + ramp);
  result->tensor_flops = machine_->tensor_flops;
  for (uint32_t pc = 0; pc < costs_.size(); ++pc) {
    if (costs_[pc].flops == 0) continue;
    const double flops =
        static_cast<double>(costs_[pc].flops) * static_cast<double>(IssuedOf(pc).lanes);
    (costs_[pc].unit == Unit::kMma ? result->tensor_flops : result->flops) +=
        costs_[pc].unit == Unit::kMma ? flops / kLanes : flops;
  }
  result->flops = (result->flops + result->tensor_flops) * scale;
  result->tensor_flops *= scale;
  result->l2_bytes *= scale;
  result->timed_ctas = static_cast<uint64_t>(timed * cluster);
}

void TimedRun::CountEngines(TimingResult* result) const {
  const double span = std::max(1.0, result->span_cycles);
  double sms = 0;
  std::array<double, kSubCores * 16> sums{};
  double tensor = 0, shared = 0, lsu = 0, tma = 0;
  for (const Group& group : groups_) {
    for (const auto& sm : group.sms) {
      ++sms;
      tensor += sm->tensor.served();
      shared += sm->shared.served();
      lsu += sm->lsu.served();
      tma += sm->tma.served();
      for (const SubCore& core : sm->cores) {
        int i = 0;
        for (const Capacity* pipe : {&core.issue, &core.fma, &core.alu, &core.half_rate, &core.mufu,
                                     &core.fp64, &core.mma, &core.tensor_memory}) {
          sums[static_cast<size_t>(i++)] += pipe->served() / kSubCores;
        }
      }
    }
  }
  const auto add = [&](const char* name, double busy) {
    result->engines.push_back({name, busy / sms, std::min(1.0, busy / sms / span)});
  };
  add("tensor pipe", tensor + sums[6]);
  add("MUFU", sums[4]);
  add("FMA", sums[1]);
  add("ALU", sums[2]);
  add("conversion", sums[3]);
  add("FP64", sums[5]);
  add("issue", sums[0]);
  add("LSU", lsu);
  add("shared memory", shared);
  add("tensor memory", sums[7]);
  add("TMA", tma);
  double l2 = 0, dram = 0;
  for (const auto& memory : memories_) {
    l2 += memory->l2().busy().cycles() / static_cast<double>(memories_.size());
    dram += memory->dram().busy().cycles() / static_cast<double>(memories_.size());
  }
  add("L2", l2 * sms);
  add("HBM", dram * sms);
}

InstructionCount TimedRun::IssuedOf(uint32_t pc) const {
  const InstructionCount& left_out = machine_->counts[pc].left_out;
  InstructionCount issued{0 - left_out.warps, 0 - left_out.lanes};
  for (const Resident& resident : residents_) {
    if (!resident.runner) continue;
    const InstructionCount& executed = resident.runner->cluster().counts[pc];
    issued.warps += executed.warps;
    issued.lanes += executed.lanes;
  }
  return issued;
}

void TimedRun::ListInstructions(TimingResult* result) const {
  const Kernel& kernel = launch_.kernel;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    const SourceLine& source = kernel.sources[kernel.code[pc].source];
    const Where where = PlaceOf(kernel, pc);
    const TimedMachine::Count& count = machine_->counts[pc];
    result->instructions.push_back({source.spelling, where.source_file, source.ptx_line,
                                    where.source_line, costs_[pc].free,
                                    static_cast<int64_t>(IssuedOf(pc).warps), count.wavefronts,
                                    count.conflicts, count.sectors});
  }
}

TimingResult TimedRun::Result() {
  TimingResult result;
  result.arch = figures_.arch;
  result.gpu = figures_.gpu;
  result.kernel = launch_.kernel.name;
  result.sms = figures_.sms;
  result.clock_mhz = clock_mhz_;
  result.launch_us = figures_.launch_us;
  result.ctas = launch_.options.grid.count();
  result.occupancy = occupancy_;
  Extrapolate(&result);
  CountEngines(&result);
  // The grid also takes at least as long as each engine of an SM.
  const double rest = GridOverTimed();
  for (const EngineUse& use : result.engines) {
    if (use.name == "L2" || use.name == "HBM") continue;
    result.grid_cycles = std::max(result.grid_cycles, use.busy * rest);
  }
  for (const Group& group : groups_) {
    for (const auto& sm : group.sms) {
      for (const Capacity* port : {&sm->l2_port, &sm->l2_store_port}) {
        result.grid_cycles = std::max(result.grid_cycles, port->served() / port->rate() * rest);
      }
    }
  }
  ListInstructions(&result);
  // PowerFactor takes the time of the timed clusters, which is this part of the time of the grid.
  result.power_factor = PowerFactor(std::max(1.0, result.grid_cycles / rest));
  result.tracks = recorder_.tracks();
  result.flows = recorder_.flows();
  result.stalls = recorder_.Stalls();
  result.path = recorder_.CriticalPath();
  result.slices = recorder_.TakeSlices();
  return result;
}

}  // namespace tilelang::emulator
