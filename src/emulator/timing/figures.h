// Defines the figures of an architecture in the timing model. One file for each architecture fills
// this table and names the source of each figure.
#ifndef TILELANG_EMULATOR_TIMING_FIGURES_H_
#define TILELANG_EMULATOR_TIMING_FIGURES_H_

#include <set>
#include <string>
#include <vector>

namespace tilelang::emulator {

// All rates are of one SM, or of one of its four sub-cores where that is said, for a cycle of the
// SM clock; all latencies are cycles.
struct Figures {
  const char* arch = "";
  const char* gpu = "";
  int sms = 0;
  double clock_mhz = 0;         // of kernels that leave the tensor core alone
  double tensor_clock_mhz = 0;  // of kernels that use it, power aside
  double launch_us = 0;         // from the start of an empty kernel to its end
  // Limits of residence.
  int registers = 65536, register_unit = 256, threads = 2048, ctas = 32;
  int shared_bytes = 0;        // for all CTAs
  int shared_reserved = 1024;  // by the system, for each CTA

  // Cycles that a warp instruction occupies a pipe of a sub-core, and after which its result can
  // be used.
  double fma_cycles = 1, alu_cycles = 2, half_rate_cycles = 4, mufu_cycles = 8, fp64_cycles = 2;
  int fma_latency = 4, half_latency = 8, alu_latency = 4, half_rate_latency = 6, mufu_latency = 18,
      fp64_latency = 8;
  double mufu_read_cycles = 2.7;  // that a warp loses of the MUFU when it reads a result of it
  int predicate_latency = 4;
  int shuffle_latency = 23, vote_latency = 12;
  int branch_latency = 6;
  int barrier_latency = 13;  // of a named barrier, and so many more for each warp:
  double barrier_warp_cycles = 2;
  int mbarrier_latency = 17;  // of an arrival, for the warp
  int mbarrier_signal = 40;   // from the last arrival to the end of the phase
  int mbarrier_wake = 27;     // from there, or from the wait, to the next instruction
  int fence_latency = 10, gpu_fence_latency = 267;
  // An SM starts a CTA in so many cycles, at least; with many warps in so many and more for each. A
  // place that a CTA has left stays empty for a while.
  double cta_launch = 158, cta_base = 127, warp_launch = 9.2, cta_gap = 500;
  // ptxas makes one FMNMX3 of two extremes, one F2FP of two conversions to 16 bits (which it does
  // for sm_90 as well, whose figures are fitted with both counted).
  bool three_extremes = false, packs_conversions = false;
  int window = 64;  // instructions that ptxas moves past one that waits, in a basic block

  // Shared memory: 128 bytes are one wavefront.
  int shared_latency = 23, matrix_latency = 29;
  double shared_wavefronts = 1;
  // The share of the time of reading operands of the tensor core that loads and stores lose.
  double operand_share = 0.3;
  bool fills_apart = false;  // copies are written past the port of loads and stores
  // Figures of cp.async, which later loads and stores wait for: cycles in which its warp issues
  // one, cycles of the load unit for a line, and requests of an SM that may be in flight.
  int copy_issue = 6;
  double copy_line_cycles = 0.54;
  size_t copy_requests = 640;
  int copy_dram_latency = 0;  // so much more than a load they take from HBM
  int shared_atomic_latency = 60;

  // Global memory.
  int l1_latency = 34, l2_latency = 200, dram_latency = 500, atomic_latency = 300;
  double l1_bytes = 128;   // a cycle
  double l1_capacity = 0;  // bytes of an SM, shared memory included
  double l2_bytes = 64;    // a cycle, loads of one SM
  double l2_store_bytes = 32;
  double l2_total_bytes = 0;    // of all, a cycle of `clock_mhz`
  bool l2_own_clock = false;    // it serves as many a second when the clock of the SMs is lower
  bool l2_own_latency = false;  // and takes as long: `l2_latency` is of `clock_mhz`
  // Each half of L2 keeps its own copy of what its SMs read: so many bytes. What has left it but is
  // in the other half takes so many nanoseconds longer.
  double l2_half = 0, l2_far_ns = 0;
  // Requests for a whole line that several CTAs of a wave read, served at once.
  double l2_merge = 1;
  // The same of CTAs of one cluster, which lie beside each other, without a multicast, too.
  double l2_cluster_merge = 1;
  // A load from HBM for four CTAs of a cluster, or more, takes so many times as long.
  double dram_wide_cluster = 1;
  // A smaller request takes as many bytes of L2 as these:
  double l2_request_bytes = 64, l2_store_request_bytes = 64;
  double l2_tensor_request_bytes = 64;  // of TMA
  double l2_capacity = 0;               // bytes
  double dram_gbs = 0;                  // 10^9 bytes a second that loads reach
  double dram_ramp = 7000;  // cycles until HBM is at its rate, if it works for ten times as long
  // HBM is at a share of its rate for this many cycles from the start of a launch.
  double dram_start = 0, dram_start_share = 1;
  // A load waits so many cycles longer when HBM is busy for half of the time, and for a share u of
  // it u / (1 - u) times as many.
  double dram_queue = 0;
  double dram_store_cost = 1.2;   // of a byte stored, in bytes loaded
  bool dram_stores_once = false;  // a sector that several stores write in parts goes there once
  // If all CTAs are resident, each with its share of the work, the SM that HBM serves worst ends
  // later than the average by the first share, and by the second share for each load of a warp that
  // an SM has in flight.
  double dram_uneven = 0, dram_uneven_load = 0;
  // A line of 128 bytes takes this many bytes more if the other half of its 256 bytes is not
  // accessed with it.
  double dram_lone_load = 0, dram_lone_store = 0;

  // TMA.
  int tma_issue = 0;         // cycles of one instruction in the unit
  int tma_hold = 1;          // and of its warp
  int tma_latency = 0;       // more than a load through L1 takes
  int tma_dram_latency = 0;  // and so much more from HBM
  double tma_bytes = 0;      // a cycle
  int tma_store_latency = 0;
  int tma_first = 0;  // the first load of an SM in a launch comes so much later

  // Tensor core: operations (2 for a multiply-add) of 16-bit operands a cycle.
  double mma_flops = 0;         // mma.sync
  double mma_fp64_flops = 128;  // of f64
  int mma_latency = 0;          // of m16n8k16
  double wgmma_flops = 0;
  // So much longer an instruction takes its pipe while the tensor core adds up in registers: the
  // pipes of additions and multiplications, of other arithmetic, of special functions.
  double fma_beside_wgmma = 0, alu_beside_wgmma = 0, mufu_beside_wgmma = 0;
  int wgmma_latency = 0;           // beyond its cycles
  int wgmma_register_latency = 0;  // the same with A in registers
  int wgmma_least = 13;            // cycles of the smallest instruction
  int wgmma_queue = 0;             // instructions of a warpgroup that the pipe accepts ahead
  double tcgen05_flops = 0;
  int tcgen05_ss_latency = 0, tcgen05_ts_latency = 0;
  int tcgen05_half_latency = 0;  // with 64 rows, from shared memory
  int tcgen05_queue = 0;
  // Figures of a pair of CTAs: latencies, cycles of the smallest instruction, and how long a row of
  // A occupies the port of shared memory.
  int pair_ss_latency = 0, pair_ts_latency = 0, pair_half_latency = 0, pair_least = 0;
  double pair_row_cost = 1;
  int commit_latency = 0;
  // Tensor memory.
  double tmem_columns = 0;     // of a sub-core, a cycle (32 lanes of 32 bits)
  double tmem_warp_pause = 0;  // cycles between two loads of a warp
  int tmem_load_latency = 0, tmem_store_latency = 0, tmem_alloc = 0;
  double tmem_copy_bytes = 0;  // tcgen05.cp, a cycle
  int tmem_copy_latency = 0, tmem_shift = 0;

  // Power: beyond `power_free` of work each share of it costs `power_slope` of the clock. Work is
  // the share of the tensor core's time, `power_issue` of that of issue, `power_copy` for a byte
  // that cp.async copies in a cycle of an SM, and `power_l2` for a TB/s of L2.
  double power_free = 1, power_slope = 0, power_issue = 0, power_copy = 0, power_l2 = 0;

  // Says whether conflicts of banks cost time.
  bool bank_conflicts = true;
};

// The GPUs of an architecture, the usual one first.
using Gpus = std::vector<Figures>;
const Gpus& Sm80Gpus();
const Gpus& Sm90Gpus();
const Gpus& Sm100Gpus();
const Gpus& Sm103Gpus();
const Gpus& Sm120Gpus();
// Every GPU that launches can be timed for.
const std::vector<const Figures*>& TimedGpus();
// The usual GPU of "sm_90a" and so on; that of a name, "H200". nullptr: there is none.
const Figures* UsualGpu(const std::string& arch);
const Figures* FindGpu(const std::string& name);
// Returns the figures at another clock of the SMs; latencies in cycles change with it.
Figures AtClock(Figures figures, double clock_mhz);
// Returns the bytes that L2 gives all SMs in a cycle of their clock.
inline double L2BytesAt(const Figures& f, double clock_mhz) {
  return f.l2_total_bytes * (f.l2_own_clock ? f.clock_mhz / clock_mhz : 1);
}
// Returns the figures that the costs of schedules use, as JSON: the work that an SM does in a
// cycle.
std::string DescribeFigures(const Figures& figures);
// Returns the figures as if the named costs were zero: "bank conflicts", "memory" (latencies and
// bandwidths of global memory), "tensor pipe", "MUFU", "barriers".
Figures Without(Figures figures, const std::set<std::string>& ablate);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_FIGURES_H_
