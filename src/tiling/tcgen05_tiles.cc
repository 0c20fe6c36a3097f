#include "tiling/tcgen05_tiles.h"

#include <algorithm>
#include <cmath>

#include "op/copy_scales.h"
#include "op/cta_pair.h"
#include "op/gemm_scale_factors.h"
#include "schedule/operand_channels.h"
#include "target/rates.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/pair_blocks.h"
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
constexpr int64_t kNarrowestBits = 256;  // of a row of the narrowest swizzle
// The clocks below are fitted to the predictions of the timing model (docs/timing.md) for ten GEMMs
// of 16 to 7168 rows with all their candidates. For these GEMMs both choose the same tiles.
//
// The round trip of a stage, with operands in L2. A grid of one wave reads them from HBM.
constexpr double kRoundTrip = 900;
constexpr double kRoundTripHbm = 1830;
// Clocks of TMA for a row of a box.
constexpr double kRowClocks = 1.2;
// Clocks that a step adds to its loads; clocks until a tile has its first operands, if the block
// has not loaded them beside the tile before; clocks of a block besides its tiles.
constexpr double kStepClocks = 75;
constexpr double kFillClocks = 1400;
constexpr double kBlockClocks = 4000;
// Clocks of the epilogue for a column: of a tile of several slices, of which one is converted while
// another is stored, and of a tile of one slice. Clocks of an exchange of sums, and bytes it moves
// in a clock.
constexpr double kColumnClocks = 12;
constexpr double kColumnClocksAlone = 17;
constexpr int64_t kSliceColumns = 64;
constexpr double kExchangeClocks = 3400;
constexpr double kExchangeBytes = 14.5;
constexpr int64_t kMostParts = 8;
// Clocks until threads that compute operands have what they read from memory, and clocks of a
// thread for an element; columns of the narrowest tile of such operands.
constexpr double kComputeLatency = 250;
constexpr double kComputeClocks = 12;
constexpr int64_t kNarrowestComputed = 32;
// Part of the shorter of both, the time of threads and that of TMA and the tensor core, that is not
// hidden by the longer one.
constexpr double kOverlapLoss = 0.1;

// Returns the bytes of shared memory that an epilogue leaves to barriers and reductions, and, if
// the operands of another tile arrive meanwhile, of the slices that the result goes through: two
// slots of 128 bytes a row. The slices of the only tile of a block take the bytes of its operands
// (schedule/overlay_results.h).
int64_t EpilogueBytes(const TileForm& form, bool only) {
  return (only ? 0 : 2 * form.tile.rows * 128) + kEpilogueBytes;
}

int64_t ColumnsLoaded(const TileForm& form) {
  return form.pairs ? form.tile.columns / op::kPairBlocks : form.tile.columns;
}

// Returns the bytes of the scale factors of a step: of the rows, and of all columns of the tile.
int64_t FactorBytes(const GemmProblem& problem, const TileForm& form) {
  return problem.factor_bytes * (1 + CeilDiv(form.tile.columns, op::kScaleAtomRows));
}

// Bytes of A and of B that a step of a tile loads.
struct LoadedBytes {
  double of_row;     // of A
  double of_column;  // of B
};

LoadedBytes BytesLoaded(const GemmProblem& problem) {
  auto depth = static_cast<double>(problem.depth);
  double whole = depth * static_cast<double>(problem.operand_bits) / 8;
  double computed = depth * problem.computed_bytes;
  return {problem.a_computed ? computed : whole, problem.b_computed ? computed : whole};
}

// Returns the elements of operands that threads compute in a step.
int64_t ElementsComputed(const GemmProblem& problem, const TileForm& form) {
  return problem.depth *
         ((problem.a_computed ? form.tile.rows : 0) + (problem.b_computed ? form.tile.columns : 0));
}

// Returns the bytes of shared memory of operands that threads compute.
int64_t ComputedBytes(const GemmProblem& problem, const TileForm& form) {
  int64_t elements = ElementsComputed(problem, form);
  if (problem.a_in_registers) elements -= problem.depth * form.tile.rows;
  return schedule::kOperandSlots * elements * problem.operand_bits / 8;
}

// Returns the columns of tensor memory that the sums of a tile take.
int64_t ColumnsOfSums(const GemmProblem& problem, const TileForm& form) {
  return problem.sums * form.tile.columns;
}

// Returns the columns of tensor memory that a tile takes: of 32 bits.
int64_t ColumnsOfTile(const GemmProblem& problem, const TileForm& form) {
  int64_t a = problem.a_in_registers ? problem.depth * problem.operand_bits / 32 : 0;
  return ColumnsOfSums(problem, form) + schedule::kOperandSlots * a;
}

// Returns whether tensor memory has room for the sums of two tiles, beside the scale factors of a
// step. Threads that bring operands have no time for an epilogue beside the next tile.
bool HasTwoSums(const GemmProblem& problem, const TileForm& form, const Target& target) {
  if (problem.a_by_threads || problem.IsComputed()) return false;
  int64_t factors = FactorBytes(problem, form) / op::kScaleAtomBytes * op::kScaleAtomColumns;
  return 2 * ColumnsOfSums(problem, form) + factors <= target->tmem_columns;
}

// The blocks that compute a GEMM by such tiles.
struct Blocks {
  int64_t count;
  int64_t waves;
  double active;  // multiprocessors that have one
};

Blocks BlocksOf(const GemmProblem& problem, const TileForm& form, const Target& target) {
  int64_t down = CeilDiv(problem.m, form.tile.rows);
  if (form.pairs) down = CeilDiv(down, op::kPairBlocks) * op::kPairBlocks;
  int64_t count = problem.batches * down * CeilDiv(problem.n, form.tile.columns) * form.parts;
  auto active = static_cast<double>(std::min<int64_t>(count, target->sm_count));
  return {count, CeilDiv(count, target->sm_count), active};
}

// `only`: blocks compute one tile each.
int64_t StagesThatFit(const GemmProblem& problem, const TileForm& form, bool only,
                      const Target& target) {
  int64_t rows = form.tile.rows;
  LoadedBytes bytes = BytesLoaded(problem);
  auto loaded = static_cast<int64_t>(static_cast<double>(problem.tiles_of_a * rows) * bytes.of_row +
                                     static_cast<double>(problem.tiles_of_b * ColumnsLoaded(form)) *
                                         bytes.of_column);
  int64_t step = loaded + FactorBytes(problem, form);
  int64_t computed = ComputedBytes(problem, form);
  // Sums that other blocks send. Those that the block sends take the bytes of its operands, as
  // slices of the only tile do, if no threads compute operands.
  only = only && !problem.IsComputed();
  int64_t received = 4 * rows * form.tile.columns * (form.parts - 1) / form.parts;
  int64_t exchange = only ? received : 2 * received;
  int64_t room = target->shared_memory_per_block - EpilogueBytes(form, only) - exchange - computed;
  // Threads may gather all operands from tensors.
  return std::min(kMostStages, room / std::max<int64_t>(step, 1));
}

// Clocks until HBM has moved all tensors. In the last wave few multiprocessors may be left to load.
double ClocksOfHbm(const GemmProblem& problem, const Blocks& blocks, const Rates& rates) {
  auto elements = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  LoadedBytes loaded = BytesLoaded(problem);
  auto depth = static_cast<double>(problem.depth);
  double bytes = static_cast<double>(problem.batches) *
                 (elements(problem.tiles_of_a * problem.m, problem.k) * loaded.of_row / depth +
                  elements(problem.tiles_of_b * problem.n, problem.k) * loaded.of_column / depth +
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

// Returns whether rows of B along N are whole units of a swizzle that both TMA and the instruction
// know: 32 bytes, and 128 bytes of 32-bit elements. Others are padded, and threads load them.
bool HasWholeUnits(const GemmProblem& problem, const TileForm& form) {
  int64_t unit = problem.operand_bits == 32 ? 1024 : kNarrowestBits;
  return !problem.b_along_n || ColumnsLoaded(form) * problem.operand_bits % unit == 0;
}

// Returns the rows of boxes by which TMA loads a tile of `extent` rows or columns in a step. Rows
// of memory along K have a swizzle of 128 bytes; rows along `extent` have the widest one that
// divides it.
double BoxRows(const GemmProblem& problem, int64_t extent, bool along) {
  auto units = static_cast<double>(problem.depth * problem.operand_bits) / kUnitBits;
  if (!along) return static_cast<double>(extent) * std::ceil(units);
  auto bits = static_cast<int64_t>(kUnitBits);
  while (bits > kNarrowestBits && extent * problem.operand_bits % bits != 0) bits /= 2;
  return static_cast<double>(problem.depth * CeilDiv(extent * problem.operand_bits, bits));
}

// Clocks of a block for each of its tiles, and what they are made of.
struct TileClocks {
  double steps = 0;     // along K
  double tensor = 0;    // of the tensor core in a step
  double l2_bytes = 0;  // that a step loads
  double epilogue = 0;
  double turn = 0;  // from the beginning of a tile to that of the next
};

// Clocks in which threads compute operands of a step.
double ClocksOfThreads(const GemmProblem& problem, const TileForm& form) {
  double elements =
      problem.computed_elements * static_cast<double>(ElementsComputed(problem, form));
  return kComputeLatency +
         kComputeClocks * elements / static_cast<double>(ThreadsOfTcgen05(problem, form));
}

TileClocks ClocksOfTile(const GemmProblem& problem, const TileForm& form, int64_t stages,
                        double active, bool in_one_wave, const Target& target) {
  Rates rates = RatesOf(target);
  TileClocks of;
  auto columns = static_cast<double>(ColumnsOfSums(problem, form));
  auto loaded = static_cast<double>(problem.tiles_of_b * ColumnsLoaded(form));
  double units = static_cast<double>(problem.depth * problem.operand_bits) / kUnitBits;
  double row_bytes = units * kUnitBits / 8;
  auto rows = static_cast<double>(problem.tiles_of_a * form.tile.rows);
  auto exist = static_cast<double>(problem.tiles_of_a * std::min(problem.m, form.tile.rows));
  of.tensor = units * 2 * static_cast<double>(problem.products * form.tile.columns);
  double shared = (rows + loaded) * row_bytes / rates.shared_bytes;
  double share = rates.l2_bytes * target->sm_count / active;
  LoadedBytes bytes = BytesLoaded(problem);
  of.l2_bytes = exist * bytes.of_row + loaded * bytes.of_column;
  double l2 = of.l2_bytes / std::min(rates.l2_alone, share);
  double boxes = static_cast<double>(problem.tiles_of_a) *
                     BoxRows(problem, form.tile.rows, problem.a_along_m) +
                 static_cast<double>(problem.tiles_of_b) *
                     BoxRows(problem, ColumnsLoaded(form), problem.b_along_n);
  double latency = in_one_wave ? kRoundTripHbm : kRoundTrip;
  double trip = (latency + l2) / static_cast<double>(stages);
  // Each stage is loaded, and then multiplied.
  double turn = trip + of.tensor / static_cast<double>(stages);
  double step =
      std::max({of.tensor, std::max({shared, l2, trip}) + kStepClocks, turn, kRowClocks * boxes});
  if (problem.IsComputed()) {
    double threads = ClocksOfThreads(problem, form);
    step = std::max(step, threads) + kOverlapLoss * std::min(step, threads);
  }
  of.steps = static_cast<double>(CeilDiv(problem.Iterations(), form.parts));
  bool slices = form.tile.columns >= 2 * kSliceColumns;
  of.epilogue =
      (slices ? kColumnClocks : kColumnClocksAlone) * columns / static_cast<double>(form.parts);
  if (form.parts > 1) {
    auto parts = static_cast<double>(form.parts);
    of.epilogue += kExchangeClocks + 4 * rows * columns * (parts - 1) / parts / kExchangeBytes;
  }
  double tile = of.steps * step;
  bool beside = HasTwoSums(problem, form, target);
  of.turn = beside ? std::max(tile, of.epilogue) : tile + kFillClocks + of.epilogue;
  return of;
}

// Returns whether blocks may have this tile if threads compute operands: each whole tile of them
// lies in the tensors, or has the program's extent, so that no further element needs a branch.
// Blocks of which threads compute B keep the program's tiles if there are more of them than
// multiprocessors: several share one, and hide the time in which threads compute. If threads
// compute A alone, wide tiles hide it, since rows of A take the same time for all columns.
bool CanCompute(const GemmProblem& problem, const TileForm& form, const Target& target) {
  auto divides = [](int64_t extent, int64_t tile, int64_t given) {
    return tile == given || extent % tile == 0;
  };
  return !form.pairs && (!problem.b_computed || BlocksOf(problem, form, target).waves == 1) &&
         (!problem.a_computed || divides(problem.m, form.tile.rows, problem.tile.rows)) &&
         (!problem.b_computed || divides(problem.n, form.tile.columns, problem.tile.columns));
}

}  // namespace

int64_t ThreadsOfTcgen05(const GemmProblem& problem, const TileForm& form) {
  return form.parts > 1 ? kWarpgroup : std::max<int64_t>(problem.threads, kWarpgroup);
}

Candidate PredictTcgen05(const GemmProblem& problem, const TileForm& form, bool in_one_wave,
                         const Target& target) {
  Rates rates = RatesOf(target);
  Blocks blocks = BlocksOf(problem, form, target);
  // Pairs take a number of tiles that only a call knows.
  bool loops = form.pairs && problem.IsDynamic();
  bool only =
      problem.IsComputed() || (blocks.waves == 1 && in_one_wave && !loops && !problem.a_by_threads);
  int64_t stages = StagesThatFit(problem, form, only, target);
  TileClocks of = ClocksOfTile(problem, form, stages, blocks.active, blocks.waves == 1, target);
  // A block that computes one tile ends with its epilogue, which is part of the turn.
  double last = problem.IsComputed() ? 0 : of.epilogue;
  double clocks =
      std::max(static_cast<double>(blocks.waves) * of.turn, ClocksOfHbm(problem, blocks, rates)) +
      kBlockClocks + last;
  double all = static_cast<double>(blocks.count) * of.steps;
  Candidate candidate{.form = form, .stages = stages};
  candidate.cost = WithPower(clocks, all * of.tensor / static_cast<double>(target->sm_count),
                             all * of.l2_bytes, rates);
  candidate.microseconds = candidate.cost / rates.clock * 1e6;
  candidate.tiles = blocks.count / form.parts;
  candidate.wave = target->sm_count / form.parts;
  candidate.any_grid = form.parts == 1 && form.tile.rows == kTileRows;
  candidate.wave_cost = ClocksOfTile(problem, form, stages, target->sm_count, false, target).turn;
  return candidate;
}

std::vector<Candidate> ProposeTcgen05(const GemmProblem& problem, const Target& target) {
  std::vector<Candidate> proposals;
  auto propose = [&](const TileExtents& tile, bool pairs, int64_t parts) {
    TileForm form{.tile = tile, .pairs = pairs, .parts = parts};
    if (problem.factor_bytes > 0 && (tile.columns % op::kScaleAtomRows != 0 || parts > 1)) return;
    if (problem.products > 1 && parts > 1) return;
    if (problem.IsComputed() && !CanCompute(problem, form, target)) return;
    if (!HasWholeUnits(problem, form) || ColumnsOfTile(problem, form) > target->tmem_columns) {
      return;
    }
    Candidate candidate = PredictTcgen05(problem, form, true, target);
    if (candidate.stages >= 2) proposals.push_back(candidate);
  };
  int64_t pair_unit = PairColumnUnit(problem.b_along_n, problem.a_by_threads);
  bool few = problem.m <= kShortTileRows && problem.factor_bytes == 0;
  int64_t narrowest = problem.IsComputed() ? kNarrowestComputed : kNarrowestTile;
  for (int64_t columns = narrowest; columns <= kWidestTile; columns += kTileStep) {
    // First: of two that HBM limits alike, the one with more stages.
    if (few) propose({kShortTileRows, columns}, false, 1);
    propose({kTileRows, columns}, false, 1);
    if (problem.m > kTileRows && columns % pair_unit == 0) propose({kTileRows, columns}, true, 1);
    int64_t tiles = problem.batches * CeilDiv(problem.m, kTileRows) * CeilDiv(problem.n, columns);
    for (int64_t parts = 2; parts <= kMostParts && tiles * parts <= target->sm_count; ++parts) {
      if (columns % (parts * kRowUnit) != 0) continue;  // each block completes whole units
      propose({kTileRows, columns}, false, parts);
    }
  }
  std::stable_sort(proposals.begin(), proposals.end(),
                   [](const auto& a, const auto& b) { return a.microseconds < b.microseconds; });
  return proposals;
}

}  // namespace tilelang::tiling
