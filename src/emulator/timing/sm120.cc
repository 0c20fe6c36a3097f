// Published figures of the RTX 5090 and the RTX PRO 6000. None of them has been measured.
#include "emulator/core/sm_count.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {
namespace {

Figures Rtx5090() {
  Figures f;
  f.arch = "sm_120a";
  f.gpu = "RTX 5090";
  f.sms = SmCountOf(f.arch);
  // RTX Blackwell whitepaper: boost clock; 209.5 TFLOP/s of f16 with sums in f32, which is half of
  // the rate with sums in f16.
  f.clock_mhz = f.tensor_clock_mhz = 2407;
  f.mma_flops = 512;
  f.mma_latency = 33;
  f.launch_us = 1.7;  // as on the B200
  // CUDA programming guide, compute capability 12.0.
  f.threads = 1536;
  f.ctas = 24;
  f.shared_bytes = 100 * 1024;
  f.l1_capacity = 128 * 1024;
  f.fma_cycles = f.alu_cycles = 1;
  f.half_rate_cycles = 4;
  f.mufu_cycles = 8;
  f.fp64_cycles = 64;
  f.l2_capacity = 96e6;  // whitepaper
  f.l2_latency = 300;    // as on the B200, as what follows of L2 and TMA
  f.l2_bytes = 64;
  f.l2_total_bytes = 4096;
  f.dram_latency = 700;
  // lookup1980/microbench-blackwell: 1.23 to 1.33 TB/s of element-wise kernels; 1.79 nominal.
  f.dram_gbs = 1500;
  f.tma_issue = 8;
  f.tma_hold = 48;
  f.tma_latency = 120;
  f.tma_bytes = 128;
  f.tma_store_latency = 300;
  f.three_extremes = f.packs_conversions = true;
  return f;
}

}  // namespace

const Gpus& Sm120Gpus() {
  static const Gpus gpus = [] {
    Figures pro = Rtx5090();
    // NVIDIA RTX PRO 6000 Blackwell data sheet: 188 SMs, 128 MB of L2; sums in f32 at full rate.
    pro.gpu = "RTX PRO 6000";
    pro.sms = 188;
    pro.clock_mhz = pro.tensor_clock_mhz = 2617;
    pro.l2_capacity = 128e6;
    pro.mma_flops = 1024;
    return Gpus{Rtx5090(), pro};
  }();
  return gpus;
}

}  // namespace tilelang::emulator
