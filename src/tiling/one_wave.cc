#include "tiling/one_wave.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/settings.h"
#include "op/gemm_wgmma.h"
#include "op/wgmma.h"
#include "target/warp.h"
#include "tiling/add_parts.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"
#include "tiling/tile_settings.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr int64_t kMostColumns = 192;
constexpr int64_t kMostRows = 256;
constexpr int64_t kFewestRows = 32;
constexpr int64_t kFewestColumns = 32;
// The time of memory for 16 bits, as of tiling/tile_cost.h: 3 TB/s; and how much longer it takes
// for tiles of B whose rows are half of a line.
constexpr double kMemory = 2.4e-6;
constexpr double kHalfLines = 1.08;
// The share of the shorter of two times, of tiles and of memory, that the longer one does not hide.
constexpr double kNotHidden = 0.3;
// The share of the tensor cores that one warpgroup reaches alone on a multiprocessor.
constexpr double kOneWarpgroup = 0.7;

// Sums have other bits where blocks share K: for as much less time only.
constexpr double kWorthParts = 0.92;
constexpr int64_t kIterationBits = 1024;  // along K, of an iteration of tiling/tile_cost.h

class Chooser {
 public:
  Chooser(const ir::Func& func, const GemmProblem& problem, const ir::KernelLaunchNode* op,
          const PlainGemm& plain, const Target& target)
      : func_(func),
        op_(op),
        problem_(problem),
        target_(target),
        settings_(func),
        program_(GridOf(op, plain)),
        unit_of_rows_(RowUnitOf(plain)),
        rows_of_b_(IsContiguousAlong(plain.gemms[0], ir::GemmDim::kN)) {
    program_.rows = problem.m;
    program_.iterations =
        static_cast<double>(problem.k * problem.operand_bits) / static_cast<double>(kIterationBits);
    auto operands =
        static_cast<double>((problem.m + problem.n) * problem.k * problem.operand_bits) / 16;
    auto results = static_cast<double>(problem.m * problem.n * problem.result_bytes) / 2;
    memory_ = kMemory * static_cast<double>(problem.batches) * (operands + results);
    splits_ = problem.batches == 1 && func->attrs.count(ir::kWholeSums) == 0 &&
              func->attrs.count(ir::kEpilogueColumns) == 0;
  }

  OneWave Choose(double otherwise) {
    Propose();
    // Three rules choose among candidates of equal cost. More blocks load more at a time. Smaller
    // tiles spend less energy on rows that do not exist. With more warpgroups, one issues while
    // another multiplies.
    auto order = [](const WaveTiles& tiles) {
      int64_t elements = tiles.tile.rows * tiles.tile.columns;
      return std::tuple(tiles.cost, -tiles.tiles * tiles.parts, elements, -tiles.Threads());
    };
    std::stable_sort(proposals_.begin(), proposals_.end(),
                     [&](const auto& a, const auto& b) { return order(a) < order(b); });
    OneWave chosen;
    chosen.cost = BesideMemory(otherwise, memory_);
    bool keeps = settings_.Allow(problem_.tile.columns, false, 1);
    double most =
        keeps ? kClearGain * (kStart + chosen.cost) : std::numeric_limits<double>::infinity();
    std::vector<ConsideredTiles> considered;
    for (const WaveTiles& tiles : proposals_) {
      ConsideredTiles note{tiles.tile, false, tiles.transposed, tiles.parts,
                           MicrosecondsOf(tiles.cost)};
      if (!chosen.launch.defined() && kStart + tiles.cost < most) {
        OneWave tried = chosen;
        tried.reason.clear();
        tried.launch = Rewritten(tiles, &tried);
        if (tried.launch.defined()) {
          chosen.launch = tried.launch;
          chosen.choice = tiles;
          chosen.cost = tiles.cost;
          note.chosen = true;
        } else if (tried.reason.empty()) {
          continue;
        } else if (chosen.reason.empty()) {
          chosen = tried;
          chosen.excluded = tiles;
        }
        note.reason = tried.reason;
      }
      considered.push_back(note);
    }
    chosen.considered = std::move(considered);
    return chosen;
  }

 private:
  // Returns the launch with these tiles, or null and the reason in `why`.
  Stmt Rewritten(const WaveTiles& tiles, OneWave* why) const {
    why->span = op_->span;
    Stmt cut = WithTiles(func_, op_, problem_.tile, tiles.tile, tiles.Threads(), &why->span);
    if (!cut.defined()) {
      why->reason = "the elements of this statement do not each belong to one row or column";
      return Stmt();
    }
    if (tiles.transposed) cut = Transposed(cut.as<ir::KernelLaunchNode>());
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    PlainGemm plain = FindPlainGemm(launch);
    bool fits =
        plain.loop != nullptr && HasRegisters(launch) && LoadsByTma(func_, launch, plain, target_);
    if (!fits || tiles.parts == 1) return fits ? cut : Stmt();
    LoopStages stages = StagesOf(launch, plain, tiles.parts);
    int64_t count = stages.Room(1, target_);
    if (!stages.HideLatency(count)) return Stmt();
    Stmt staged = WithStages(cut, plain.loop, count);
    Stmt split = WithParts(func_, staged.as<ir::KernelLaunchNode>(), tiles.parts, ir::GemmDim::kM);
    if (!split.defined()) {
      why->reason =
          "blocks can add their sums only if these begin with zero, and if each statement after "
          "the loop treats rows one by one";
    }
    return split;
  }

  TileGrid GridWith(const TileExtents& tile, bool transposed) const {
    TileGrid grid = program_;
    grid.tile = tile;
    grid.transposed = transposed;
    grid.tiles =
        CeilDiv(problem_.m, tile.rows) * CeilDiv(problem_.n, tile.columns) * problem_.batches;
    return grid;
  }

  // Returns the cost of a wave of tiles beside the time of their bytes.
  static double BesideMemory(double cost, double memory) {
    return std::max(cost, memory) + kNotHidden * std::min(cost, memory);
  }

  void Propose() {
    bool halves = problem_.operand_bits == kResultBits;
    int64_t covered = CeilDiv(problem_.m, kWgmmaRows) * kWgmmaRows;
    for (int64_t rows = kWgmmaRows; rows <= std::min(covered, 2 * kWgmmaRows); rows *= 2) {
      for (int64_t columns = kFewestColumns; columns <= kMostRows; columns += kFewestColumns) {
        bool swizzled = !rows_of_b_ || columns == kFewestColumns || columns % kColumnUnit == 0;
        if (swizzled) Add({rows, columns}, false, 1);
      }
    }
    if (!halves) return;
    // Few rows fill half of a swizzle.
    int64_t unit_of_rows =
        problem_.m <= kFewestRows ? std::min(kFewestRows, unit_of_rows_) : unit_of_rows_;
    for (int64_t parts = 1; parts <= kLargestCluster; ++parts) {
      if (parts > 1 && !splits_) break;
      int64_t unit = std::lcm(kRowUnit * parts, unit_of_rows);
      for (int64_t count = 1; count <= target_->sm_count; ++count) {
        if (count > 1 && CeilDiv(problem_.m, count) <= kFewestRows) break;
        int64_t rows = CeilDiv(CeilDiv(problem_.m, count), unit) * unit;
        for (int64_t columns = kColumnUnit; columns <= kMostColumns; columns += kColumnUnit) {
          Add({rows, columns}, true, parts);
        }
      }
    }
  }

  // Adds a candidate whose blocks are all there at a time, with registers for its sums.
  void Add(const TileExtents& tile, bool transposed, int64_t parts) {
    WaveTiles tiles{tile, transposed, parts};
    bool same = tile == problem_.tile;
    if (tile.rows > kMostRows || (same && parts == 1)) return;
    if (tile.rows * tile.columns / tiles.Threads() > MostBesideLoader(tiles.Threads())) return;
    TileGrid grid = GridWith(tile, transposed);
    bool known = std::any_of(proposals_.begin(), proposals_.end(), [&](const WaveTiles& other) {
      return other.tile == tile && other.transposed == transposed && other.parts == parts;
    });
    if (known || grid.tiles > ClustersAtOnce(parts, target_) ||
        !settings_.Allow(tile.columns, false, parts))
      return;
    tiles.tiles = grid.tiles;
    double memory = tile.columns < kColumnUnit ? kHalfLines * memory_ : memory_;
    if (tiles.Threads() == kWarpgroup) grid.tensor_share = kOneWarpgroup;
    tiles.cost = BesideMemory(grid.CostOfPart(parts, target_), memory) + grid.CostOfExchange(parts);
    if (parts > 1) tiles.cost /= kWorthParts;
    proposals_.push_back(tiles);
  }

  ir::Func func_;
  const ir::KernelLaunchNode* op_;
  GemmProblem problem_;
  Target target_;
  TileSettings settings_;
  TileGrid program_;
  int64_t unit_of_rows_;
  bool rows_of_b_;       // its rows are contiguous along N
  double memory_ = 0;    // the least that its tensors take
  bool splits_ = false;  // blocks may share K
  std::vector<WaveTiles> proposals_;
};

}  // namespace

int64_t WaveTiles::Threads() const {
  return (transposed ? tile.columns : tile.rows) / kWgmmaRows * kWarpgroup;
}

OneWave ChooseOneWave(const ir::Func& func, const ir::KernelLaunchNode* op, const PlainGemm& plain,
                      int64_t rows, double otherwise, const Target& target) {
  auto problem = Describe(op, plain);
  bool possible = problem && plain.gemms.size() == 1 && op->threads.size() == 1 &&
                  ir::AsInt(plain.loop->extent) &&
                  ir::AsInt(ExtentOfTensor(plain, ir::GemmDim::kN)) &&
                  op::MultipliesByWgmma(plain.gemms[0], problem->threads) &&
                  LoadsByTma(func, op, plain, target);
  if (!possible) return {};
  problem->m = rows;
  return Chooser(func, *problem, op, plain, target).Choose(otherwise);
}

}  // namespace tilelang::tiling
