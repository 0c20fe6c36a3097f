#include "emulator/timing/figures.h"

namespace tilelang::emulator {
namespace {

constexpr double kPlenty = 1e6;  // times a rate

void WithoutMemory(Figures& f) {
  f.l1_latency = f.l2_latency = f.dram_latency = f.atomic_latency = f.tma_latency = 1;
  for (double* rate : {&f.l2_bytes, &f.l2_store_bytes, &f.l2_total_bytes, &f.dram_gbs}) {
    *rate *= kPlenty;
  }
}

void WithoutTensorPipe(Figures& f) {
  for (double* rate : {&f.mma_flops, &f.mma_fp64_flops, &f.wgmma_flops, &f.tcgen05_flops}) {
    *rate *= kPlenty;
  }
  f.mma_latency = f.wgmma_latency = f.wgmma_register_latency = f.wgmma_least = 1;
  f.tcgen05_ss_latency = f.tcgen05_ts_latency = f.tcgen05_half_latency = 1;
  f.pair_ss_latency = f.pair_ts_latency = f.pair_half_latency = f.pair_least = 1;
}

void WithoutBarriers(Figures& f) {
  f.barrier_latency = f.mbarrier_latency = f.mbarrier_signal = f.mbarrier_wake = 1;
  f.barrier_warp_cycles = 0;
}

}  // namespace

Figures Without(Figures figures, const std::set<std::string>& ablate) {
  if (ablate.count("bank conflicts")) figures.bank_conflicts = false;
  if (ablate.count("memory")) WithoutMemory(figures);
  if (ablate.count("tensor pipe")) WithoutTensorPipe(figures);
  if (ablate.count("MUFU")) figures.mufu_cycles = figures.mufu_latency = 1;
  if (ablate.count("barriers")) WithoutBarriers(figures);
  return figures;
}

}  // namespace tilelang::emulator
