// Figures of the A100 (SXM, 80 GB).
#include "emulator/core/sm_count.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {

const Gpus& Sm80Gpus() {
  static const Gpus gpus = [] {
    Figures f;
    f.arch = "sm_80";
    f.gpu = "A100";
    f.sms = SmCountOf(f.arch);
    f.clock_mhz = f.tensor_clock_mhz = 1410;  // whitepaper, boost
    f.launch_us = 2.5;                        // as on the H200
    f.shared_bytes = 164 * 1024;
    // CUDA programming guide, arithmetic instructions: 64 f32, 64 integer, 16 special, 32 f64.
    f.fma_cycles = 2;
    f.alu_cycles = 2;
    f.half_rate_cycles = 8;
    f.mufu_cycles = 8;
    f.fp64_cycles = 4;
    f.l1_capacity = 192 * 1024;  // whitepaper
    f.l2_capacity = 40e6;        // whitepaper
    f.l2_bytes = 64;             // whitepaper: 5120 bytes a cycle of all slices
    f.l2_total_bytes = 5120;
    f.dram_gbs = 1800;   // 2039 nominal
    f.mma_flops = 2048;  // whitepaper: 1024 dense FMA of f16
    f.mma_latency = 33;
    return Gpus{f};
  }();
  return gpus;
}

}  // namespace tilelang::emulator
