// Figures of the H200 (SXM, 141 GB).
#include "emulator/core/sm_count.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {

namespace {

// Sets the figures of the tensor core, of the engines that feed it, and of the power it takes.
void SetTensorCore(Figures& f) {
  f.mma_flops = 2621;
  f.mma_latency = 24;
  f.mma_fp64_flops = 128;
  f.wgmma_flops = 4096;  // whitepaper: 2048 dense FMA of f16
  f.wgmma_latency = 60;
  f.fma_beside_wgmma = 0.35;  // 0.15 to 0.4 by operands
  f.alu_beside_wgmma = 1;
  f.mufu_beside_wgmma = 0.12;
  f.wgmma_register_latency = 52;
  f.wgmma_least = 13;
  f.wgmma_queue = 7;
  f.tma_issue = 8;
  f.tma_hold = 60;
  f.tma_latency = 73;
  f.tma_dram_latency = 110;
  f.tma_bytes = 128;
  f.tma_store_latency = 105;
  // These figures are fitted to the clocks of benchmark/microbench/power.py and of the fitted GEMMs
  // and attentions at 700 W.
  f.power_free = 0.708;
  f.power_slope = 0.41;
  f.power_issue = 0.18;
  f.power_copy = 0.0054;
  f.power_l2 = 0.0446;
}

}  // namespace

const Gpus& Sm90Gpus() {
  static const Gpus gpus = [] {
    Figures f;
    f.arch = "sm_90a";
    f.gpu = "H200";
    f.sms = SmCountOf(f.arch);
    f.clock_mhz = 1980;  // the clock that the driver sets for kernels below the power limit
    f.launch_us = 1.2;
    f.tensor_clock_mhz = 1805;  // of kernels with work for the tensor core below the limit
    f.shared_bytes = 228 * 1024;
    // The figures below were measured on an H200 by benchmark/microbench, where nothing else is
    // said.
    f.fma_cycles = 1;
    f.alu_cycles = 2;
    f.half_rate_cycles = 4;
    f.mufu_cycles = 8;
    f.fp64_cycles = 2;
    f.fma_latency = 4;
    f.alu_latency = 4;
    f.half_rate_latency = 8;
    f.mufu_latency = 17;
    f.fp64_latency = 8;
    f.predicate_latency = 4;
    f.shuffle_latency = 24;
    f.vote_latency = 12;
    f.barrier_latency = 13;
    f.barrier_warp_cycles = 2;
    f.mbarrier_latency = 17;
    f.mbarrier_signal = 40;
    f.mbarrier_wake = 27;
    f.fence_latency = 10;
    f.gpu_fence_latency = 267;
    f.cta_launch = 158;
    f.cta_base = 127;
    f.warp_launch = 9.2;
    f.cta_gap = 700;  // fitted to a kernel of short CTAs
    f.shared_latency = 23;
    f.matrix_latency = 25;
    f.shared_atomic_latency = 85;
    f.fills_apart = true;
    f.copy_dram_latency = 450;  // the last one of a tile of 64 or 128 rows
    f.l1_latency = 41;
    f.l2_latency = 289;
    f.dram_latency = 690;
    f.atomic_latency = 552;
    f.l1_capacity = 256 * 1024;  // whitepaper
    f.l2_capacity = 50e6;        // whitepaper
    f.l2_bytes = 107;
    f.l2_store_bytes = 32;
    f.l2_total_bytes = 4600;  // 35 bytes a cycle and SM
    f.l2_own_clock = true;
    f.l2_merge = 1.28;  // GEMMs of small tiles
    f.l2_tensor_request_bytes = 73;
    f.l2_request_bytes = 60;  // random sectors of 4 to 32 MB
    f.l2_store_request_bytes = 110;
    f.dram_gbs = 4400;   // 4.2 to 4.6 by mixture
    f.dram_queue = 140;  // tensor loads of 4 KiB, one to six in flight on each SM
    f.dram_store_cost = 1.05;
    f.dram_uneven = 0.025;  // sums of arrays by resident CTAs
    f.dram_uneven_load = 0.00007;
    f.dram_lone_load = 16;  // copies of tiles of 128 bytes
    f.dram_lone_store = 22;
    SetTensorCore(f);
    return Gpus{f};
  }();
  return gpus;
}

}  // namespace tilelang::emulator
