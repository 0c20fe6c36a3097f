// B200.
#include "emulator/core/sm_count.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {

const Figures& Sm100Figures() {
  static const Figures figures = [] {
    Figures f;
    f.arch = "sm_100a";
    f.gpu = "B200";
    f.sms = SmCountOf(f.arch);
    f.clock_mhz = f.tensor_clock_mhz =
        1850;           // FlashAttention-4 paper (arXiv 2603.05451): 1.85 GHz boost
    f.launch_us = 2.3;  // as on the H200
    f.shared_bytes = 228 * 1024;
    // FlashAttention-4 paper: 128 FMA, 16 MUFU; the others as on sm_90.
    f.fma_cycles = 1;
    f.alu_cycles = 2;
    f.half_rate_cycles = 4;
    f.mufu_cycles = 8;
    // Machine code of attention for sm_100a: 33 FMNMX3 of 66 max.f32, 96 F2FP of 192 cvt.rn.bf16.
    f.three_extremes = f.packs_conversions = true;
    f.fp64_cycles = 2;
    f.l1_capacity = 256 * 1024;
    f.l2_capacity = 126e6;
    f.l2_bytes = 96;  // fills of 26 TB/s over 148 SMs
    f.l2_total_bytes = 14000;
    f.l2_latency = 300;  // SemiAnalysis
    // SemiAnalysis, TMA while all SMs load: 1413 cycles for 1 KiB, 4586 for 32 KiB, 9559 for
    // 128 KiB: 10 bytes a cycle and SM at first.
    f.dram_latency = 1180;
    f.dram_start = 4600;
    f.dram_start_share = 0.39;
    f.dram_ramp = 0;
    f.dram_gbs = 7100;  // SemiAnalysis: 7.0 to 7.26 TB/s of 8 nominal
    f.mma_flops = 2560;
    f.mma_latency = 33;
    f.tma_issue = 8;
    f.tma_hold = 48;  // one cp.async.bulk
    f.tma_latency = 120;
    f.tma_bytes = 128;
    f.tma_store_latency = 300;
    // SemiAnalysis, B200: 8192 operations of 16-bit operands a cycle.
    f.tcgen05_flops = 8192;
    // From the issue to a thread that waits 136, and 104 with A in tensor memory, 120 with 64 rows;
    // of these the wait takes 10.
    f.tcgen05_ss_latency = 126;
    f.tcgen05_ts_latency = 94;
    f.tcgen05_queue = 24;  // about 6 for each sub-core
    f.tcgen05_half_latency = 110;
    // Of pairs, likewise: 170 from shared memory, 138 with A in tensor memory, 147 to 165 with 64
    // rows in each CTA. M = 128 from tensor memory takes at least 18.3 cycles; with N = 64 operands
    // in shared memory take 43.7 cycles instead of 40, with 64 rows 25.7 instead of 24.
    f.pair_ss_latency = 160;
    f.pair_ts_latency = 128;
    f.pair_half_latency = 146;
    f.pair_least = 18;
    f.pair_row_cost = 1.115;
    // Micro-benchmarks of a B300: arrival and wait 8 cycles each.
    f.mbarrier_latency = 8;
    f.mbarrier_wake = 8;
    f.commit_latency = 8;
    f.tmem_columns = 2;        // of 32 lanes: 256 bytes a cycle
    f.tmem_load_latency = 16;  // 24 with x16
    f.tmem_warp_pause = 5;     // 184 to 213 of 256 bytes a cycle with one warp
    f.tmem_store_latency = 16;
    f.tmem_alloc = 253;
    f.tmem_copy_bytes = 32;
    f.tmem_copy_latency = 5;  // 168 from the issue of 128x256b to a thread that waits
    f.tmem_shift = 12;
    // As on the H200, for want of measurements.
    f.power_free = 0.45;
    f.power_slope = 0.5;
    f.power_l2 = 0.008;
    return f;
  }();
  return figures;
}

const Figures& FiguresOf(const std::string& arch) {
  if (arch == "sm_80") return Sm80Figures();
  return arch == "sm_90a" ? Sm90Figures() : Sm100Figures();
}

}  // namespace tilelang::emulator
