#include "tiling/tcgen05_tiles.h"

#include <algorithm>

#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/gemm_scale_factors.h"
#include "target/rates.h"
#include "tiling/loop_stages.h"

namespace tilelang::tiling {

namespace {

constexpr int64_t kTileRows = 128;
constexpr int64_t kWidestTile = 256;
constexpr int64_t kTileStep = 32;
constexpr int64_t kNarrowestTile = 64;
// Bits along K that an instruction's shared tiles have in a row of a swizzle.
constexpr double kUnitBits = 1024;
// The clocks below are fitted to the predictions of the timing model (docs/timing.md) for ten GEMMs
// of 16 to 7168 rows with all their candidates. For these GEMMs both choose the same tiles.
//
// The round trip of a stage, with operands in L2. A grid of one wave reads them from HBM.
constexpr double kRoundTrip = 900;
constexpr double kRoundTripHbm = 1830;
// Clocks that a step adds to its longest part, and that a tile adds to its steps.
constexpr double kStepClocks = 75;
constexpr double kTileClocks = 1400;
// Clocks of the epilogue for a column, clocks of an exchange of sums, and bytes it moves in a
// clock.
constexpr double kColumnClocks = 33;
constexpr double kExchangeClocks = 3400;
constexpr double kExchangeBytes = 14.5;
constexpr int64_t kMostParts = 8;

// Bytes of shared memory that slices of the result go through, two slots of 128 bytes a row.
int64_t EpilogueBytes() { return 2 * kTileRows * 128; }

int64_t ColumnsLoaded(const Tcgen05Tiles& tiles) {
  return tiles.pairs ? tiles.tile.columns / op::kPairBlocks : tiles.tile.columns;
}

// Bytes of the scale factors of a step: of the rows, and of all columns of the tile.
int64_t FactorBytes(const GemmProblem& problem, const Tcgen05Tiles& tiles) {
  return problem.factor_bytes * (1 + CeilDiv(tiles.tile.columns, op::kScaleAtomRows));
}

// Whether tensor memory has room for the sums of two tiles, beside the scale factors of a step.
bool HasTwoSums(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  int64_t factors = FactorBytes(problem, tiles) / op::kScaleAtomBytes * op::kScaleAtomColumns;
  return 2 * tiles.tile.columns + factors <= target->tmem_columns;
}

int64_t StagesThatFit(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  int64_t step = (kTileRows + ColumnsLoaded(tiles)) * problem.depth * problem.operand_bits / 8 +
                 FactorBytes(problem, tiles);
  int64_t exchange = 4 * kTileRows * tiles.tile.columns * 2 * (tiles.parts - 1) / tiles.parts;
  int64_t room = target->shared_memory_per_block - kBlockBytes - EpilogueBytes() - exchange;
  return std::min(kMostStages, room / step);
}

double ClocksOf(const GemmProblem& problem, const Tcgen05Tiles& tiles, const Target& target) {
  Rates rates = RatesOf(target);
  int64_t blocks_down = CeilDiv(problem.m, tiles.tile.rows);
  if (tiles.pairs) blocks_down = CeilDiv(blocks_down, op::kPairBlocks) * op::kPairBlocks;
  int64_t count =
      problem.batches * blocks_down * CeilDiv(problem.n, tiles.tile.columns) * tiles.parts;
  int64_t waves = CeilDiv(count, target->sm_count);
  auto active = static_cast<double>(std::min<int64_t>(count, target->sm_count));
  auto columns = static_cast<double>(tiles.tile.columns);
  auto loaded = static_cast<double>(ColumnsLoaded(tiles));
  double units = static_cast<double>(problem.depth * problem.operand_bits) / kUnitBits;
  double row_bytes = units * kUnitBits / 8;
  auto rows = static_cast<double>(kTileRows);
  auto exist = static_cast<double>(std::min(problem.m, kTileRows));
  double tensor = units * 2 * columns;
  double shared = (rows + loaded) * row_bytes / rates.shared_bytes;
  double share = rates.l2_bytes * target->sm_count / active;
  double l2 = (exist + loaded) * row_bytes / std::min(rates.l2_alone, share);
  double trip = ((waves > 1 ? kRoundTrip : kRoundTripHbm) + l2) / static_cast<double>(tiles.stages);
  double step = std::max({tensor, shared, l2, trip}) + kStepClocks;
  double tile = static_cast<double>(CeilDiv(problem.Iterations(), tiles.parts)) * step;
  double epilogue = kColumnClocks * columns / static_cast<double>(tiles.parts);
  if (tiles.parts > 1) {
    auto parts = static_cast<double>(tiles.parts);
    epilogue += kExchangeClocks + 4 * rows * columns * (parts - 1) / parts / kExchangeBytes;
  }
  tile += kTileClocks;
  double turn = HasTwoSums(problem, tiles, target) ? std::max(tile, epilogue) : tile + epilogue;
  double clocks = static_cast<double>(waves) * turn + epilogue;
  auto elements = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  double bytes = static_cast<double>(problem.batches) *
                 ((elements(problem.m, problem.k) + elements(problem.n, problem.k)) *
                      static_cast<double>(problem.operand_bits) / 8 +
                  elements(problem.m, problem.n) * static_cast<double>(problem.result_bytes));
  return std::max(clocks, bytes / rates.hbm_bytes);
}

}  // namespace

std::vector<Tcgen05Tiles> ProposeTcgen05(const GemmProblem& problem, const Target& target) {
  std::vector<Tcgen05Tiles> proposals;
  auto propose = [&](int64_t columns, bool pairs, int64_t parts) {
    Tcgen05Tiles tiles{{kTileRows, columns}, pairs, parts, 0, 0};
    if (problem.factor_bytes > 0 && (columns % op::kScaleAtomRows != 0 || parts > 1)) return;
    tiles.stages = StagesThatFit(problem, tiles, target);
    if (tiles.stages < 2) return;
    tiles.clocks = ClocksOf(problem, tiles, target);
    proposals.push_back(tiles);
  };
  for (int64_t columns = kNarrowestTile; columns <= kWidestTile; columns += kTileStep) {
    propose(columns, false, 1);
    if (problem.m > kTileRows) propose(columns, true, 1);
    int64_t tiles = problem.batches * CeilDiv(problem.m, kTileRows) * CeilDiv(problem.n, columns);
    for (int64_t parts = 2; parts <= kMostParts && tiles * parts <= target->sm_count; ++parts) {
      propose(columns, false, parts);
    }
  }
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const auto& a, const auto& b) { return a.clocks < b.clocks; });
  return proposals;
}

}  // namespace tilelang::tiling
