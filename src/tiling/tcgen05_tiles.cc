#include "tiling/tcgen05_tiles.h"

#include <algorithm>

#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/gemm_scale_factors.h"
#include "target/rates.h"
#include "tiling/loop_stages.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

namespace {

constexpr int64_t kTileRows = 128;
constexpr int64_t kShortTileRows = 64;
constexpr int64_t kWidestTile = 256;
constexpr int64_t kTileStep = 16;
constexpr int64_t kNarrowestTile = 64;
// Bits along K that an instruction's shared tiles have in a row of a swizzle.
constexpr double kUnitBits = 1024;
// The clocks below are fitted to the predictions of the timing model (docs/timing.md) for ten GEMMs
// of 16 to 7168 rows with all their candidates. For these GEMMs both choose the same tiles.
//
// The round trip of a stage, with operands in L2. A grid of one wave reads them from HBM.
constexpr double kRoundTrip = 900;
constexpr double kRoundTripHbm = 1830;
// Clocks that a step adds to its loads; clocks until a tile has its first operands, if the block
// has not loaded them beside the tile before; clocks of a block besides its tiles.
constexpr double kStepClocks = 75;
constexpr double kFillClocks = 1400;
constexpr double kBlockClocks = 4000;
// Clocks of the epilogue for a column, clocks of an exchange of sums, and bytes it moves in a
// clock.
constexpr double kColumnClocks = 10;
constexpr double kExchangeClocks = 3400;
constexpr double kExchangeBytes = 14.5;
constexpr int64_t kMostParts = 8;

// Returns the bytes of shared memory that an epilogue leaves to barriers and reductions, and, if
// the operands of another tile arrive meanwhile, of the slices that the result goes through: two
// slots of 128 bytes a row. The slices of the only tile of a block take the bytes of its operands
// (schedule/overlay_results.h).
int64_t EpilogueBytes(const Tcgen05Tiles& tiles, bool only) {
  return (only ? 0 : 2 * tiles.tile.rows * 128) + kEpilogueBytes;
}

int64_t ColumnsLoaded(const Tcgen05Tiles& tiles) {
  return tiles.pairs ? tiles.tile.columns / op::kPairBlocks : tiles.tile.columns;
}

// Returns the bytes of the scale factors of a step: of the rows, and of all columns of the tile.
int64_t FactorBytes(const GemmProblem& problem, const Tcgen05Tiles& tiles) {
  return problem.factor_bytes * (1 + CeilDiv(tiles.tile.columns, op::kScaleAtomRows));
}

// Returns whether tensor memory has room for the sums of two tiles, beside the scale factors of a
// step. Threads that bring A to tensor memory have no time for an epilogue beside the next tile.
bool HasTwoSums(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  if (problem.a_by_threads) return false;
  int64_t factors = FactorBytes(problem, tiles) / op::kScaleAtomBytes * op::kScaleAtomColumns;
  return 2 * tiles.tile.columns + factors <= target->tmem_columns;
}

// The blocks that compute a GEMM by such tiles.
struct Blocks {
  int64_t count;
  int64_t waves;
  double active;  // multiprocessors that have one
};

Blocks BlocksOf(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  int64_t down = CeilDiv(problem.m, tiles.tile.rows);
  if (tiles.pairs) down = CeilDiv(down, op::kPairBlocks) * op::kPairBlocks;
  int64_t count = problem.batches * down * CeilDiv(problem.n, tiles.tile.columns) * tiles.parts;
  auto active = static_cast<double>(std::min<int64_t>(count, target->sm_count));
  return {count, CeilDiv(count, target->sm_count), active};
}

int64_t StagesThatFit(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  int64_t rows = tiles.tile.rows;
  int64_t step = (rows + ColumnsLoaded(tiles)) * problem.depth * problem.operand_bits / 8 +
                 FactorBytes(problem, tiles);
  bool only = BlocksOf(problem, tiles, target).waves == 1 && !problem.dynamic_m.defined() &&
              !problem.a_by_threads;
  // Sums that other blocks send. Those that the block sends take the bytes of its operands.
  int64_t received = 4 * rows * tiles.tile.columns * (tiles.parts - 1) / tiles.parts;
  int64_t exchange = only ? received : 2 * received;
  int64_t room = target->shared_memory_per_block - EpilogueBytes(tiles, only) - exchange;
  return std::min(kMostStages, room / step);
}

// Clocks until HBM has moved all tensors. In the last wave few multiprocessors may be left to load.
double ClocksOfHbm(const GemmProblem& problem, const Blocks& blocks, const Rates& rates) {
  auto elements = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  double bytes = static_cast<double>(problem.batches) *
                 ((elements(problem.m, problem.k) + elements(problem.n, problem.k)) *
                      static_cast<double>(problem.operand_bits) / 8 +
                  elements(problem.m, problem.n) * static_cast<double>(problem.result_bytes));
  double uneven =
      static_cast<double>(blocks.waves) * blocks.active / static_cast<double>(blocks.count);
  return bytes / rates.hbm_bytes * uneven;
}

// Returns the clocks with the power limit, in clocks of the full rate: work of the tensor cores and
// of L2 lowers it.
double WithPower(double clocks, double tensor, double l2_bytes, const Rates& rates) {
  double work = rates.power_slope * (tensor / clocks - rates.power_free);
  double l2_tbs = l2_bytes / clocks * rates.clock * 1e-12;
  return clocks / std::min(1.0, (1 - work) / (1 + rates.power_slope * rates.power_l2 * l2_tbs));
}

double ClocksOf(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  Rates rates = RatesOf(target);
  Blocks blocks = BlocksOf(problem, tiles, target);
  auto columns = static_cast<double>(tiles.tile.columns);
  auto loaded = static_cast<double>(ColumnsLoaded(tiles));
  double units = static_cast<double>(problem.depth * problem.operand_bits) / kUnitBits;
  double row_bytes = units * kUnitBits / 8;
  auto rows = static_cast<double>(tiles.tile.rows);
  auto exist = static_cast<double>(std::min(problem.m, tiles.tile.rows));
  double tensor = units * 2 * columns;
  double shared = (rows + loaded) * row_bytes / rates.shared_bytes;
  double share = rates.l2_bytes * target->sm_count / blocks.active;
  double l2_bytes = (exist + loaded) * row_bytes;
  double l2 = l2_bytes / std::min(rates.l2_alone, share);
  double latency = blocks.waves > 1 ? kRoundTrip : kRoundTripHbm;
  double trip = (latency + l2) / static_cast<double>(tiles.stages);
  double step = std::max(tensor, std::max({shared, l2, trip}) + kStepClocks);
  auto steps = static_cast<double>(CeilDiv(problem.Iterations(), tiles.parts));
  double epilogue = kColumnClocks * columns / static_cast<double>(tiles.parts);
  if (tiles.parts > 1) {
    auto parts = static_cast<double>(tiles.parts);
    epilogue += kExchangeClocks + 4 * rows * columns * (parts - 1) / parts / kExchangeBytes;
  }
  double tile = steps * step;
  bool beside = HasTwoSums(problem, tiles, target);
  double turn = beside ? std::max(tile, epilogue) : tile + kFillClocks + epilogue;
  double clocks =
      std::max(static_cast<double>(blocks.waves) * turn, ClocksOfHbm(problem, blocks, rates)) +
      kBlockClocks + epilogue;
  double all = static_cast<double>(blocks.count) * steps;
  return WithPower(clocks, all * tensor / static_cast<double>(target->sm_count), all * l2_bytes,
                   rates);
}

}  // namespace

std::vector<Tcgen05Tiles> ProposeTcgen05(const GemmProblem& problem, const Target& target) {
  std::vector<Tcgen05Tiles> proposals;
  auto propose = [&](const TileExtents& tile, bool pairs, int64_t parts) {
    Tcgen05Tiles tiles{tile, pairs, parts, 0, 0};
    if (problem.factor_bytes > 0 && (tile.columns % op::kScaleAtomRows != 0 || parts > 1)) return;
    tiles.stages = StagesThatFit(problem, tiles, target);
    if (tiles.stages < 2) return;
    tiles.clocks = ClocksOf(problem, tiles, target);
    proposals.push_back(tiles);
  };
  bool few = problem.m <= kShortTileRows && problem.factor_bytes == 0;
  for (int64_t columns = kNarrowestTile; columns <= kWidestTile; columns += kTileStep) {
    // First: of two that HBM limits alike, the one with more stages.
    if (few) propose({kShortTileRows, columns}, false, 1);
    propose({kTileRows, columns}, false, 1);
    if (problem.m > kTileRows) propose({kTileRows, columns}, true, 1);
    int64_t tiles = problem.batches * CeilDiv(problem.m, kTileRows) * CeilDiv(problem.n, columns);
    for (int64_t parts = 2; parts <= kMostParts && tiles * parts <= target->sm_count; ++parts) {
      if (columns % (parts * kRowUnit) != 0) continue;  // each block completes whole units
      propose({kTileRows, columns}, false, parts);
    }
  }
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const auto& a, const auto& b) { return a.clocks < b.clocks; });
  return proposals;
}

}  // namespace tilelang::tiling
