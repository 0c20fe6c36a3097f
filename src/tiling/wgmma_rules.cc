#include <tvm/ffi/cast.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/kernel_scope.h"
#include "ir/launch_extent.h"
#include "ir/settings.h"
#include "op/gemm_wgmma.h"
#include "op/wgmma.h"
#include "target/warp.h"
#include "tiling/add_parts.h"
#include "tiling/loop_stages.h"
#include "tiling/persistent_plan.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/share_loads.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"
#include "tiling/tile_rules.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

// Tiles of larger grids: for one or two warpgroups, and for two or three, which take fewer bytes
// for as many products.
constexpr TileExtents kOfGrids[] = {{128, 128}, {128, 256}, {192, 192}, {128, 192}, {256, 128}};
// Tiles of one wave.
constexpr int64_t kMostColumns = 192;
constexpr int64_t kMostRows = 256;
constexpr int64_t kFewestRows = 32;
constexpr int64_t kFewestColumns = 32;
constexpr int64_t kMostWarpgroups = 3;

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
constexpr int64_t kIterationBits = kDepthOfStep * kResultBits;  // along K

// Returns the rows or columns of a tile that the warpgroups of a block share.
int64_t SharedExtent(const TileForm& form) {
  bool transposed = form.transposed || form.tile.rows % kWgmmaRows != 0;
  return transposed ? form.tile.columns : form.tile.rows;
}

// Returns the threads that compute a tile: a warpgroup has whole 64s of it.
int64_t ThreadsOf(const TileForm& form) {
  int64_t units = SharedExtent(form) / kWgmmaRows;
  return (units % kMostWarpgroups == 0 ? kMostWarpgroups : std::min<int64_t>(units, 2)) *
         kWarpgroup;
}

class RulesOfWgmma : public TileRules {
 public:
  RulesOfWgmma(const ir::Func& func, const ir::KernelLaunchNode* launch, const GemmProblem& problem,
               const PlainGemm& plain, const Target& target)
      : func_(func),
        launch_(launch),
        problem_(problem),
        target_(target),
        program_(GridOf(launch, plain)),
        stages_(StagesOf(launch, plain)),
        unit_of_rows_(RowUnitOf(plain)),
        whole_sums_(Has(ir::kWholeSums)) {
    // Others, such as reductions over the result, keep two narrow blocks on a multiprocessor, of
    // which one computes with its sums while the other multiplies.
    widens_ = ComputesByElement(launch, plain) && HasShortElements(plain) && !Has(ir::kNarrowTiles);
    has_result_ = BytesOfResult(launch, plain).has_value();
    shares_loads_ = tiling::RowsThatShare(func, launch, plain) > 0;
    bool two_axes = launch->grid.size() == 2;
    bool by_wgmma = op::MultipliesByWgmma(plain.gemms[0], problem.threads);
    one_wave_ = by_wgmma && !Has(ir::kGivenBlocks);
    splits_ = two_axes && problem.batches == 1 && !problem.dynamic_k && !whole_sums_ &&
              !Has(ir::kEpilogueColumns);
  }

  std::vector<Candidate> Propose(const GemmProblem& problem) const override {
    std::vector<Candidate> all = {OfGrid(problem, problem.tile)};
    bool many = problem.IsDynamic() || all[0].tiles > target_->sm_count;
    if (widens_ && many) {
      for (const TileExtents& tile : kOfGrids) {
        if (tile != problem.tile) all.push_back(OfGrid(problem, tile));
      }
      if (has_result_) AddAnyRows(problem, &all);
    }
    if (one_wave_) AddOneWave(problem, &all);
    return all;
  }

  Candidate Predict(const GemmProblem& problem, const Candidate& candidate,
                    bool in_one_wave) const override {
    return candidate.any_grid ? OfGrid(problem, candidate.form.tile, in_one_wave)
                              : OfOneWave(problem, candidate.form);
  }

  // Memory takes as long with all tiles of larger grids, which hide it.
  bool IsBetter(const Candidate& other, const Candidate& best) const override {
    return other.any_grid ? other.cost < kClearGain * best.cost
                          : other.microseconds < kClearGain * best.microseconds;
  }

  TiledLaunch Apply(const Candidate& candidate, bool, Exclusion* excluded) const override {
    const TileForm& form = candidate.form;
    if (form == TileForm{.tile = problem_.tile}) {
      return {ir::ffi::GetRef<Stmt>(launch_), ir::ExtentsInside(launch_->grid)};
    }
    Stmt cut =
        WithTiles(func_, launch_, problem_.tile, form.tile, ThreadsOf(form), &excluded->span);
    if (!cut.defined()) {
      excluded->reason = "the elements of this statement do not each belong to one row or column";
      return {};
    }
    if (form.transposed) cut = Transposed(cut.as<ir::KernelLaunchNode>());
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    PlainGemm plain = FindPlainGemm(launch);
    bool fits =
        plain.loop != nullptr && HasRegisters(launch) && LoadsByTma(func_, launch, plain, target_);
    if (!fits) return {};
    ir::Array<ir::Expr> grid = ir::ExtentsInside(launch->grid);
    LoopStages stages = StagesOf(launch, plain, form.parts);
    if (form.parts == 1) {
      bool room = stages.Fits(std::max(stages.given, kFewestStages), target_);
      return room ? TiledLaunch{cut, grid} : TiledLaunch{};
    }
    int64_t count = stages.Room(1, target_);
    if (!stages.HideLatency(count)) return {};
    Stmt staged = WithStages(cut, plain.loop, count);
    Stmt split = WithParts(func_, staged.as<ir::KernelLaunchNode>(), form.parts, ir::GemmDim::kM);
    if (!split.defined()) {
      excluded->reason =
          "blocks can add their sums only if these begin with zero, if no statement outside of "
          "the loop uses its tiles, and if each statement after the loop treats rows one by one";
    }
    return {split, grid};
  }

  std::string Remark(const Candidate& chosen, const TiledLaunch& tiled) const override {
    const TileForm& form = chosen.form;
    if (form == TileForm{.tile = problem_.tile}) return "";
    std::string text = "T.Kernel: ";
    if (ir::AsInts(tiled.grid)) text += std::to_string(chosen.tiles * form.parts) + " ";
    text += "blocks of " + std::to_string(ThreadsOf(form)) + " threads compute " + Text(form.tile) +
            " elements ";
    std::string parts = std::to_string(form.parts);
    std::string instead = "each instead of " + Text(problem_.tile);
    if (chosen.any_grid) {
      return text + instead +
             ": they load fewer bytes for as many products. The pass option "
             "tl.disable_tile_widening turns this off";
    }
    if (form.parts == 1) {
      text += instead + ", and all of them run at a time. The pass option ";
    } else {
      text +=
          "a cluster of " + parts + " instead of " + Text(problem_.tile) +
          " each: clusters share the iterations of the loop, so that more multiprocessors "
          "load, and add up their sums, which have other last bits than those of one block, the "
          "same ones in each call. The pass option tl.disable_split_k leaves each tile to one "
          "block; ";
    }
    return text + "tl.disable_tile_choice turns this off";
  }

 private:
  static bool HasShortElements(const PlainGemm& plain) {
    auto inputs = plain.gemms[0]->Inputs();
    return std::all_of(inputs.begin(), inputs.end(), [](const ir::GemmOperandNode* input) {
      return input->buffer()->dtype.bits == kResultBits;
    });
  }

  // Returns the tiles of a problem as a grid.
  TileGrid GridWith(const GemmProblem& problem, const TileForm& form) const {
    TileGrid grid = program_;
    grid.rows = problem.m;
    grid.iterations =
        static_cast<double>(problem.k * problem.operand_bits) / static_cast<double>(kIterationBits);
    grid.tile = form.tile;
    grid.transposed = form.transposed;
    grid.tiles = CeilDiv(problem.m, form.tile.rows) * CeilDiv(problem.n, form.tile.columns) *
                 problem.batches;
    return grid;
  }

  // Returns the time that the tensors of a problem take.
  static double MemoryOf(const GemmProblem& problem) {
    auto operands =
        static_cast<double>((problem.m + problem.n) * problem.k * problem.operand_bits) / 16;
    auto results = static_cast<double>(problem.m * problem.n * problem.result_bytes) / 2;
    return kMemory * static_cast<double>(problem.batches) * (operands + results);
  }
  // Returns the cost of tiles beside the time of their bytes.
  static double BesideMemory(double cost, double memory) {
    return std::max(cost, memory) + kNotHidden * std::min(cost, memory);
  }

  // Returns tiles for grids of any size. `in_one_wave`: of calls for which that is known, other
  // passes give a block two warpgroups.
  Candidate OfGrid(const GemmProblem& problem, const TileExtents& tile,
                   bool in_one_wave = true) const {
    Candidate candidate{.form = {.tile = tile}};
    TileGrid grid = GridWith(problem, candidate.form);
    candidate.tiles = grid.tiles;
    candidate.wave = target_->sm_count;
    candidate.wave_cost = grid.CostOfTile();
    bool alone = grid.tiles <= target_->sm_count && tile == problem.tile;
    if (alone && !in_one_wave && problem.threads == kWarpgroup) grid.tensor_share = kOneWarpgroup;
    bool persistent = tile != problem.tile && !problem.IsDynamic() && IsPersistent(tile);
    int64_t rows = RowsThatShare(problem, tile);
    candidate.cost = candidate.IsOneWave() ? grid.CostOfOneTile(rows, target_)
                     : persistent ? PlanPersistent(grid, {rows, !whole_sums_}, target_).cost
                                  : grid.Cost(target_);
    candidate.microseconds = MicrosecondsOf(BesideMemory(candidate.cost, MemoryOf(problem)));
    return candidate;
  }

  // Returns the rows of tiles, of which pairs can load tiles of B together; 0 where none can.
  int64_t RowsThatShare(const GemmProblem& problem, const TileExtents& tile) const {
    int64_t rows = CeilDiv(problem.m, tile.rows);
    return shares_loads_ && !problem.IsDynamic() && rows > 1 ? rows : 0;
  }

  // Returns whether tiling/persist_blocks.h has blocks compute such tiles in turn: shared memory
  // has room for their results beside the fewest stages.
  bool IsPersistent(const TileExtents& tile) const {
    const TileExtents& own = problem_.tile;
    LoopStages stages{};
    stages.bytes = stages_.bytes * (tile.rows + tile.columns) / (own.rows + own.columns);
    int64_t area = tile.rows * tile.columns;
    stages.others = stages_.others * area / (own.rows * own.columns) + area * kResultBits / 8;
    return has_result_ && stages.Fits(kFewestStages, target_);
  }

  // Returns whether blocks of two or three warpgroups compute such tiles: tiling/fit_blocks.h has
  // one warpgroup compute a tile if a multiprocessor then holds two.
  bool TakesMultiprocessor(const TileExtents& tile) const {
    BlockNeeds narrow{.threads = kWarpgroup,
                      .registers = tile.rows * tile.columns / kWarpgroup,
                      .runs_ahead = true,
                      .multiplies = true};
    return ThreadsOf({.tile = tile}) > 2 * kWarpgroup || BlocksPerSm(narrow, target_) < 2;
  }

  // Adds tiles whose rows fill the waves of a grid, the least cost first.
  void AddAnyRows(const GemmProblem& problem, std::vector<Candidate>* all) const {
    auto first = static_cast<std::ptrdiff_t>(all->size());
    // Columns, rows, and the most rows whose sums the registers of two or three warpgroups hold.
    for (auto [columns, least, end] :
         {std::tuple{128, 136, 256}, std::tuple{192, 96, 192}, std::tuple{256, 72, 128}}) {
      for (int64_t rows = CeilDiv(least, unit_of_rows_) * unit_of_rows_; rows < end;
           rows += unit_of_rows_) {
        if (rows % kWgmmaRows == 0) continue;
        Candidate candidate = OfGrid(problem, {rows, columns});
        bool alone = !problem.IsDynamic() && candidate.IsOneWave();
        if (alone || TakesMultiprocessor(candidate.form.tile)) all->push_back(candidate);
      }
    }
    std::stable_sort(all->begin() + first, all->end(),
                     [](const auto& a, const auto& b) { return a.cost < b.cost; });
  }

  // Adds tiles of which the GPU computes all at a time, the least time first. Of equal ones:
  // more blocks load more at a time; smaller tiles spend less energy on rows that do not exist;
  // with more warpgroups, one issues while another multiplies.
  void AddOneWave(const GemmProblem& problem, std::vector<Candidate>* all) const {
    auto first = static_cast<std::ptrdiff_t>(all->size());
    std::set<TileForm> known = {{.tile = problem.tile}};
    auto add = [&](const TileForm& form) {
      if (known.insert(form).second) AddIfOneWave(problem, form, all);
    };
    int64_t covered = CeilDiv(problem.m, kWgmmaRows) * kWgmmaRows;
    for (int64_t rows = kWgmmaRows; rows <= std::min(covered, 2 * kWgmmaRows); rows *= 2) {
      for (int64_t columns = kFewestColumns; columns <= kMostRows; columns += kFewestColumns) {
        bool swizzled =
            !problem.b_along_n || columns == kFewestColumns || columns % kColumnUnit == 0;
        if (swizzled) add({.tile = {rows, columns}});
      }
    }
    if (problem.operand_bits == kResultBits) {
      for (int64_t parts = 1; parts <= (splits_ ? kLargestCluster : 1); ++parts) {
        ForRowsOfOneWave(problem, parts, add);
      }
    }
    auto order = [](const Candidate& c) {
      const TileForm& form = c.form;
      return std::tuple(c.microseconds, -c.tiles * form.parts, form.tile.rows * form.tile.columns,
                        -ThreadsOf(form));
    };
    std::stable_sort(all->begin() + first, all->end(),
                     [&](const auto& a, const auto& b) { return order(a) < order(b); });
  }

  // Calls `add` with forms of the transposed product, whose rows divide those of the problem.
  template <typename Add>
  void ForRowsOfOneWave(const GemmProblem& problem, int64_t parts, const Add& add) const {
    // Few rows fill half of a swizzle.
    int64_t of_rows =
        problem.m <= kFewestRows ? std::min(kFewestRows, unit_of_rows_) : unit_of_rows_;
    int64_t unit = std::lcm(kRowUnit * parts, of_rows);
    for (int64_t count = 1; count <= target_->sm_count; ++count) {
      if (count > 1 && CeilDiv(problem.m, count) <= kFewestRows) break;
      int64_t rows = CeilDiv(CeilDiv(problem.m, count), unit) * unit;
      for (int64_t columns = kColumnUnit; columns <= kMostColumns; columns += kColumnUnit) {
        add({.tile = {rows, columns}, .transposed = true, .parts = parts});
      }
    }
  }

  // Adds tiles whose blocks are all there at a time, with registers for their sums.
  void AddIfOneWave(const GemmProblem& problem, const TileForm& form,
                    std::vector<Candidate>* all) const {
    const TileExtents& tile = form.tile;
    int64_t threads = ThreadsOf(form);
    if (tile.rows > kMostRows || tile.rows * tile.columns / threads > MostBesideLoader(threads)) {
      return;
    }
    Candidate candidate = OfOneWave(problem, form);
    if (candidate.IsOneWave()) all->push_back(candidate);
  }

  Candidate OfOneWave(const GemmProblem& problem, const TileForm& form) const {
    TileGrid grid = GridWith(problem, form);
    Candidate candidate{.form = form, .tiles = grid.tiles, .any_grid = false};
    candidate.wave = ClustersAtOnce(form.parts, target_);
    double memory = MemoryOf(problem) * (form.tile.columns < kColumnUnit ? kHalfLines : 1);
    if (ThreadsOf(form) == kWarpgroup) grid.tensor_share = kOneWarpgroup;
    double cost = form.parts == 1 ? grid.CostOfOneTile(RowsThatShare(problem, form.tile), target_)
                                  : grid.CostOfPart(form.parts, target_);
    candidate.cost = BesideMemory(cost, memory) + grid.CostOfExchange(form.parts);
    if (form.parts > 1) candidate.cost /= kWorthParts;
    candidate.wave_cost = candidate.cost;
    candidate.microseconds = MicrosecondsOf(candidate.cost);
    return candidate;
  }

  bool Has(const char* setting) const { return func_->attrs.count(setting) != 0; }

  ir::Func func_;
  const ir::KernelLaunchNode* launch_;
  GemmProblem problem_;
  Target target_;
  TileGrid program_;
  LoopStages stages_;  // of the program's tiles, from which those of others follow
  int64_t unit_of_rows_;
  bool whole_sums_;
  bool widens_ = false;        // larger grids may have wider tiles
  bool has_result_ = false;    // of 16 bits, which goes through shared memory
  bool shares_loads_ = false;  // pairs of blocks can load tiles of B together
  bool one_wave_ = false;      // there are candidates for one wave
  bool splits_ = false;        // blocks may share K
};

}  // namespace

std::unique_ptr<TileRules> WgmmaRules(const ir::Func& func, const ir::KernelLaunchNode* launch,
                                      const GemmProblem& problem, const PlainGemm& plain,
                                      const Target& target) {
  // Blocks of grids of the call's size that no extent of a tensor gives are not counted.
  bool counts = problem.IsDynamic() || ir::AsInts(launch->grid);
  if (!counts || !HasEqualLoops(launch, plain) || !LoadsByTma(func, launch, plain, target))
    return nullptr;
  return std::make_unique<RulesOfWgmma>(func, launch, problem, plain, target);
}

}  // namespace tilelang::tiling
