// Figures of the B200.
#include "emulator/core/sm_count.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {

namespace {

// Sets the power limit, 1000 W. FlashAttention-4 (products in 74 % of the cycles) runs at 1580 MHz
// once the limit acts (flashinfer#2899), a GEMM of 16384 cubed at 1540 TFLOP/s (tirx-kernels).
void SetPower(Figures& f) {
  f.power_free = 0.62;
  f.power_slope = 0.635;
  f.power_l2 = 0.008;  // as on the H200, for want of measurements
}

// Sets the figures of TMA, the tensor core and tensor memory.
void SetCopiesAndProducts(Figures& f) {
  f.mma_flops = 2560;
  f.mma_latency = 33;
  f.tma_issue = 8;
  f.tma_hold = 48;  // one cp.async.bulk
  f.tma_latency = 120;
  f.tma_bytes = 128;
  f.tma_store_latency = 300;
  f.tma_first = 1180;  // a tensor map is read from HBM
  // SemiAnalysis: six stages of 128 x 64 x 64 take 272 cycles each, as long as their 256 rows,
  // while the tensor core reads its operands.
  f.fills_apart = true;
  // SemiAnalysis, B200: 8192 operations of 16-bit operands a cycle.
  f.tcgen05_flops = 8192;
  // A thread that waits for a product from shared memory sees it 136 cycles after its issue, 104
  // with A in tensor memory, 120 with 64 rows. The wait takes 10 of these cycles.
  f.tcgen05_ss_latency = 126;
  f.tcgen05_ts_latency = 94;
  f.tcgen05_queue = 24;  // about 6 for each sub-core
  f.tcgen05_half_latency = 110;
  // Pairs take 170 cycles from shared memory, 138 with A in tensor memory, and 147 to 165 with 64
  // rows in each CTA. M = 128 from tensor memory takes at least 18.3 cycles; with N = 64 operands
  // in shared memory take 43.7 cycles instead of 40, with 64 rows 25.7 instead of 24.
  f.pair_ss_latency = 160;
  f.pair_ts_latency = 128;
  f.pair_half_latency = 146;
  f.pair_least = 18;
  f.pair_row_cost = 1.115;
  // Micro-benchmarks of a B300: arrival and wait take 8 cycles each.
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
}

Figures B200() {
  static const Figures figures = [] {
    Figures f;
    f.arch = "sm_100a";
    f.gpu = "B200";
    f.sms = SmCountOf(f.arch);
    // FlashAttention-4 paper (arXiv 2603.05451): 1.85 GHz boost. The driver allows 1965, at which
    // the kernels of tirx-kernels that may be looked at are predicted a tenth too fast.
    f.clock_mhz = f.tensor_clock_mhz = 1850;
    f.launch_us = 1.7;  // the time of their kernels that do almost nothing
    f.shared_bytes = 228 * 1024;
    // FlashAttention-4 paper: 128 FMA, 16 MUFU. The other rates are as on sm_90.
    f.fma_cycles = 1;
    f.alu_cycles = 2;
    f.half_rate_cycles = 4;
    f.mufu_cycles = 8;
    // Machine code of attention for sm_100a: 33 FMNMX3 of 66 max.f32, 96 F2FP of 192 cvt.rn.bf16.
    f.three_extremes = f.packs_conversions = true;
    f.fp64_cycles = 2;
    f.l1_capacity = 256 * 1024;
    f.l2_capacity = 126e6;
    f.l2_bytes = 122;          // SemiAnalysis: fills of an SM that loads alone, rows of 128 bytes
    f.l2_total_bytes = 14000;  // 26 TB/s of all
    f.l2_own_latency = true;   // round trips of a stage: 560 cycles at 1300 MHz
    f.l2_half = 60e6;          // between 50 and 67 MB a round trip becomes 300 ns longer
    f.l2_far_ns = 300;
    // SemiAnalysis: two CTAs of a cluster that read the same data take half of the sectors, four
    // CTAs a quarter. Four CTAs start at half of the rate of two, with as many bytes in flight.
    f.l2_cluster_merge = 4;
    f.dram_wide_cluster = 2;
    f.l2_latency = 300;  // SemiAnalysis
    // SemiAnalysis, bandwidth by bytes in flight on an SM: cp.async of 4, 8, 16 and 32 KiB reaches
    // 1.35, 2.49, 4.23 and 5.70 TB/s, TMA 1.13, 2.03, 3.6 and 5.6.
    f.dram_latency = 850;
    f.dram_queue = 220;
    f.tma_dram_latency = 100;
    f.dram_ramp = 0;
    f.dram_stores_once = true;  // L2 writes back
    // SemiAnalysis: 7.0 to 7.26 TB/s of 8 nominal. Copies reach 7.0 to 7.2, so a byte that is
    // stored takes no longer than one that is loaded (Gluon's memcpy_1d and softmax on a GB200).
    f.dram_gbs = 7200;
    f.dram_store_cost = 1;
    SetCopiesAndProducts(f);
    SetPower(f);
    return f;
  }();
  return figures;
}

// The module with a Grace CPU has 152 SMs (Triton's tutorials). They report 1335 to 1548 TFLOP/s of
// cuBLAS at 8192 x 8192 x 16384, so the power limit lowers its clock as it lowers the clock of a
// B200.
Figures Gb200() {
  Figures f = B200();
  f.gpu = "GB200";
  f.sms = 152;
  return f;
}

}  // namespace

const Gpus& Sm100Gpus() {
  static const Gpus gpus = {B200(), Gb200()};
  return gpus;
}

// A B300 has the figures of a B200 where nothing else is known. Exponentials run at twice the rate
// (NVIDIA, "Inside Blackwell Ultra"), the clock is 2070 MHz and the limit 1400 W (GB300:
// facebookexperimental/triton#2023).
const Gpus& Sm103Gpus() {
  static const Gpus gpus = [] {
    Figures f = B200();
    f.arch = "sm_103a";
    f.gpu = "B300";
    f.sms = SmCountOf(f.arch);
    f.clock_mhz = f.tensor_clock_mhz = 2070;
    f.mufu_cycles = 4;
    f.power_free *= 1.4;
    return Gpus{f};
  }();
  return gpus;
}

}  // namespace tilelang::emulator
