#include "tiling/tiling_time.h"

#include <algorithm>
#include <limits>

#include "registry/functions.h"
#include "target/rates.h"
#include "target/warp.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

namespace {

constexpr double kUnitFlops = 2.0 * 128 * 128 * 64;
constexpr double kUnitLineBytes = 128 * 128;
constexpr double kUnitDepthBits = 64 * 16;
// Clocks from the request of a tile until it is there, and clocks at the beginning and the end of a
// block.
constexpr double kLatency = 1400;
constexpr double kOverhead = 2500;
// The share of the tensor cores that one warpgroup alone on a multiprocessor reaches.
constexpr double kAlone = 0.7;
// Clocks of a step along K that nothing hides, and how much slower rows below 128 bytes arrive.
constexpr double kStep = 40;
constexpr double kNarrowRows = 1.25;
// The share of a hidden time that still shows.
constexpr double kHidden = 0.1;
// Products of float64 take so many times what their bits say.
constexpr double kDouble = 4;

// Rates for operands of so many bits, and the time of L2 for 128 lines relative to that of the
// tensor core for 128 x 128 x 64 products.
struct GemmRates {
  Rates rates;
  double lines;
};
GemmRates RatesFor(const Target& target, int64_t operand_bits) {
  GemmRates of{RatesOf(target), 0};
  of.lines = kUnitLineBytes / of.rates.l2_bytes / (kUnitFlops / of.rates.tensor_flops);
  if (operand_bits == 64) {
    of.rates.tensor_flops /= kDouble;
    of.lines /= kDouble;
  }
  return of;
}

BlockNeeds NeedsOf(const Target& target, const GemmSizes& sizes, const GemmTiling& tiling) {
  constexpr int64_t kRegisterBits = 32;
  int64_t step = (tiling.tile.rows + tiling.tile.columns) * tiling.depth;
  int64_t sums = tiling.tile.rows * tiling.tile.columns;
  BlockNeeds needs;
  needs.shared_bytes = tiling.stages * step * sizes.operand_bits / 8;
  needs.threads = tiling.threads;
  needs.runs_ahead = true;
  needs.multiplies = true;
  if (target->has_tcgen05) {
    needs.tmem_columns = CeilDiv(tiling.tile.rows, target->tmem_lanes) * tiling.tile.columns;
  } else {
    needs.registers = sums * sizes.sum_bits / kRegisterBits / tiling.threads;
  }
  return needs;
}

// Clocks of the blocks that a multiprocessor holds together, `count`.
double ClocksOfRound(const GemmRates& of, const GemmSizes& sizes, const GemmTiling& tiling,
                     int64_t count) {
  double unit = kUnitFlops / of.rates.tensor_flops;
  double l2_bytes = kUnitLineBytes / (of.lines * unit);
  auto rows = static_cast<double>(tiling.tile.rows);
  auto columns = static_cast<double>(tiling.tile.columns);
  auto blocks = static_cast<double>(count);
  double row_bits = static_cast<double>(tiling.depth * sizes.operand_bits);
  double line = of.lines / kLines * (row_bits < kUnitDepthBits ? kNarrowRows : 1);
  double exist = std::min(rows, static_cast<double>(sizes.m)) / rows;
  double share = count * tiling.threads <= kWarpgroup ? kAlone : 1;  // of the tensor cores
  TileGrid step = {1, tiling.tile, {share * exist * line, share * line}, row_bits / kUnitDepthBits};
  double work = unit * step.CostOfTile() / share * blocks;
  auto ahead = static_cast<double>(std::max<int64_t>(tiling.stages - 1, 1));
  double clocks = std::max(work, kLatency / ahead) + kStep;
  // Nothing arrives while the older one of two stages is given back.
  if (tiling.stages == 2) clocks += kHidden * kLatency;
  double stores = rows * columns * static_cast<double>(sizes.result_bits) / 8 / l2_bytes * blocks;
  auto steps = static_cast<double>(CeilDiv(sizes.k, tiling.depth));
  return steps * clocks + stores + kOverhead;
}

}  // namespace

double GemmSeconds(const Target& target, const GemmSizes& sizes, const GemmTiling& tiling) {
  int64_t resident = BlocksPerSm(NeedsOf(target, sizes, tiling), target);
  if (resident == 0) return std::numeric_limits<double>::infinity();
  GemmRates rates = RatesFor(target, sizes.operand_bits);
  int64_t blocks = CeilDiv(sizes.m, tiling.tile.rows) * CeilDiv(sizes.n, tiling.tile.columns);
  int64_t on_sm = CeilDiv(blocks, target->sm_count);
  int64_t rest = on_sm % resident;
  double clocks = 0;
  if (on_sm >= resident) {
    clocks = static_cast<double>(on_sm / resident) * ClocksOfRound(rates, sizes, tiling, resident);
  }
  if (rest > 0) clocks += ClocksOfRound(rates, sizes, tiling, rest);
  double bits = static_cast<double>(sizes.operand_bits) *
                    static_cast<double>(sizes.m * sizes.k + sizes.k * sizes.n) +
                static_cast<double>(sizes.result_bits) * static_cast<double>(sizes.m * sizes.n);
  double memory = bits / 8 / rates.rates.hbm_bytes;
  // Time of memory is not free even if it is hidden: of the tilings that it limits, the ones that
  // wait less are faster.
  return (std::max(clocks, memory) + kHidden * std::min(clocks, memory)) / rates.rates.clock;
}

double SweepSeconds(const Target& target, int64_t blocks, double bytes_of_block, int64_t threads) {
  Rates rates = RatesOf(target);
  int64_t resident =
      std::clamp<int64_t>(target->max_threads_per_sm / threads, 1, target->max_blocks_per_sm);
  int64_t rounds = CeilDiv(CeilDiv(blocks, target->sm_count), resident);
  // Each thread has some loads of 16 bytes under way; below that, latency holds the block.
  double loads = bytes_of_block / static_cast<double>(threads * 16);
  double block = kLatency * std::max(1.0, loads / 8) + 16 * std::min(loads, 1.0);
  double clocks = static_cast<double>(rounds) * block;
  auto count = static_cast<double>(blocks);
  // At the end of a grid only some multiprocessors have a block.
  auto uneven = static_cast<double>(CeilDiv(blocks, target->sm_count) * target->sm_count);
  double memory = uneven * bytes_of_block / rates.hbm_bytes;
  double starts = count / rates.starts;
  double longest = std::max({clocks, memory, starts});
  return (longest + kHidden * (clocks + memory + starts - longest)) / rates.clock;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions()
      .Add("tl.transform.GemmSeconds",
           [](Target target, ir::ffi::Array<int64_t> sizes, ir::ffi::Array<int64_t> tiling) {
             return GemmSeconds(target,
                                {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]},
                                {{tiling[0], tiling[1]}, tiling[2], tiling[3], tiling[4]});
           })
      .Add("tl.transform.SweepSeconds", &SweepSeconds);
}

}  // namespace tilelang::tiling
