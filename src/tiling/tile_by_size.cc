#include "tiling/tile_by_size.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "arith/analyzer.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/one_wave.h"
#include "tiling/retile.h"
#include "tiling/tile_cutter.h"
#include "transform/launch_condition.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// Wide tiles. By the estimate all three are at most 2 % better than the best two, in the mean over
// rows and for columns from 1024 to 28672; 256 x 128 adds nothing to them.
constexpr TileExtents kWide[] = {{128, 256}, {192, 192}, {128, 192}};

// Tiles of blocks in one wave, each in turn for more rows, and with more bytes of operands. If rows
// are no multiple of 64, wgmma computes the transposed product.
constexpr TileExtents kOneWave[] = {{64, 64}, {96, 64}, {128, 64}, kNarrow, {160, 128}};

// The same where the columns are of the call, too: the fewest elements first.
constexpr TileExtents kOneWaveOfAny[] = {{64, 32},  {64, 64}, {96, 64},  {64, 128},
                                         {128, 64}, kNarrow,  {160, 128}};

// A tile of 64 rows is loaded without its other rows if there are at most this many
// (tiling/trim_loads.h).
constexpr int64_t kFewRows[] = {32, 16};

// For calls of at most so many rows blocks of a cluster may share the iterations of their tile.
constexpr int64_t kShared[] = {16, 32, 64, 128};

Expr I64(int64_t value) { return ir::Const(ir::dtypes::kInt64, value); }
Expr Inside(const ir::KernelLaunchNode* op, size_t axis) {
  return ir::CastTo(ir::dtypes::kInt64, ir::ExtentInside(op->grid[axis]));
}

// One of the launches.
struct Version {
  ir::KernelLaunch launch;
  TileExtents tile;
  Expr fits;                // whether it is the one
  std::string remark = "";  // of which rows it is
  int64_t parts = 1;        // blocks that share K
};

class SizeVersioner : public ir::StmtMutator {
 public:
  SizeVersioner(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    plain_ = FindPlainGemm(op);
    bool possible = plain_.loop != nullptr && op->grid.size() == 2 && !ir::AsInts(op->grid);
    if (!possible || !HasNarrowTiles(op, plain_) || !LoadsByTma(func_, op, plain_, target_)) {
      return self;
    }
    auto axis = RowsOfCall(op);
    std::vector<Version> versions = axis ? VersionsOfAWave(op, *axis) : VersionsOfAnyWave(op);
    Expr more = LeaveToFirst(&versions, axis.has_value());
    arith::Analyzer analyzer;
    for (Version& wide : ManyWaves(op)) {
      if (analyzer.CanProve(ir::Not(wide.fits))) continue;  // another is as good for all sizes
      wide.fits = more && wide.fits;
      versions.push_back(wide);
    }
    if (versions.size() < 2) return self;
    std::vector<Stmt> launches;
    for (const Version& version : versions) {
      launches.push_back(transform::LaunchWhere(version.fits, version.launch.get()));
    }
    RemarkVersions(op, versions);
    return ir::Seq(launches, op->span);
  }

 private:
  // Returns the axis of the rows if only they are dynamic.
  std::optional<size_t> RowsOfCall(const ir::KernelLaunchNode* op) const {
    for (size_t axis : {0, 1}) {
      if (ir::AsInt(ir::ExtentInside(op->grid[axis])) || !ir::AsInt(op->grid[1 - axis])) continue;
      TileCut half = {ir::GemmDim::kM, op->block_vars[axis], kNarrow.rows, kWgmmaRows};
      if (TileCutter(func_, op, plain_, half).Body().defined()) return axis;
    }
    return std::nullopt;
  }

  // Leaves to each version where none before it fits; returns where none fits. `nested`: each fits
  // where the ones before do.
  static Expr LeaveToFirst(std::vector<Version>* versions, bool nested) {
    Expr none = ir::Const(ir::dtypes::kBool, 1);
    for (Version& version : *versions) {
      Expr others = nested ? ir::Not(version.fits) : none && ir::Not(version.fits);
      version.fits = none && version.fits;
      none = others;
    }
    return none;
  }

  // Returns versions whose blocks are all in one wave, the fewest rows first. Each fits if the ones
  // before do.
  std::vector<Version> VersionsOfAWave(const ir::KernelLaunchNode* op, size_t axis) const {
    std::vector<Version> versions;
    int64_t columns = *ir::AsInt(ir::ExtentInside(op->grid[1 - axis]));
    bool is_long = ir::AsInt(plain_.loop->extent).value_or(0) >= kLongLoop;
    int64_t before = 0;  // rows
    auto add = [&](const TileExtents& tile, int64_t most) {
      if (most * tile.rows <= before) return;
      Stmt cut = WithTiles(func_, op, kNarrow, tile, ThreadsOf(tile));
      if (!cut.defined()) return;
      versions.push_back(UpTo(cut.as<ir::KernelLaunchNode>(), axis, most, tile));
      before = most * tile.rows;
    };
    for (int64_t rows : kShared) {
      TileGrid narrow = GridOf(op, plain_);
      narrow.rows = rows;
      narrow.tiles = columns;
      OneWave wave = ChooseOneWave(func_, op, plain_, rows, narrow.Cost(target_), target_);
      const WaveTiles& choice = wave.choice;
      if (!wave.launch.defined() || choice.parts == 1) break;
      int64_t most = CeilDiv(rows, choice.tile.rows);
      if (most * choice.tile.rows <= before) continue;
      // More rows in the tiles of the kernel before run by that kernel.
      if (!versions.empty() && versions.back().parts == choice.parts &&
          versions.back().tile == choice.tile) {
        versions.pop_back();
      }
      versions.push_back(UpTo(wave.launch.as<ir::KernelLaunchNode>(), axis, most, choice.tile));
      versions.back().parts = choice.parts;
      versions.back().remark = " (by clusters of " + std::to_string(choice.parts) + ")";
      before = most * choice.tile.rows;
    }
    if (is_long && versions.empty()) {
      int64_t parts = 4;
      while (parts > 1 && columns * parts > target_->sm_count) parts /= 2;
      add({kWgmmaRows, kNarrow.columns / parts}, target_->sm_count >= columns * parts ? 1 : 0);
      WithFewRows(&versions);
    }
    for (const TileExtents& tile : kOneWave) {
      int64_t parts = kNarrow.columns / tile.columns;
      if (is_long || tile == kNarrow) add(tile, target_->sm_count / (columns * parts));
    }
    return versions;
  }

  // Returns the same for dynamic columns, where the product with the rows decides.
  std::vector<Version> VersionsOfAnyWave(const ir::KernelLaunchNode* op) const {
    std::vector<Version> versions;
    bool is_long = ir::AsInt(plain_.loop->extent).value_or(kLongLoop) >= kLongLoop;
    for (const TileExtents& tile : kOneWaveOfAny) {
      Stmt cut;
      if (is_long || tile == kNarrow) cut = WithTiles(func_, op, kNarrow, tile, ThreadsOf(tile));
      if (!cut.defined()) continue;
      Version version = OfAWave(cut.as<ir::KernelLaunchNode>(), tile);
      if (tile.rows == kWgmmaRows && RowsOfTensor().defined()) {
        versions.push_back(OfFewRows(version, kFewRows[0]));
      }
      versions.push_back(version);
    }
    return versions;
  }

  Version OfAWave(const ir::KernelLaunchNode* op, const TileExtents& tile) const {
    auto attrs = op->attrs;
    attrs.Set(kMostBlocks, target_->sm_count);
    ir::KernelLaunch launch(op->block_vars, op->grid, op->thread_vars, op->threads, attrs, op->body,
                            op->span);
    return {launch, tile, Inside(op, 0) * Inside(op, 1) <= I64(target_->sm_count)};
  }

  // Returns the rows of A if they are dynamic, else null.
  Expr RowsOfTensor() const {
    Expr rows = ExtentOfTensor(plain_, ir::GemmDim::kM);
    return rows.defined() && !ir::AsInt(rows) ? rows : Expr();
  }

  // Returns a version for at most `most` rows, which loads no others.
  Version OfFewRows(const Version& version, int64_t most) const {
    Version few = version;
    Expr rows = RowsOfTensor();
    few.fits = rows <= ir::Const(rows.dtype(), most) && few.fits;
    few.remark = " (of at most " + std::to_string(most) + " rows)";
    return few;
  }

  // Warpgroups share the instruction's rows, which are columns of the transposed product.
  static int64_t ThreadsOf(const TileExtents& tile) {
    bool transposed = tile.rows % kWgmmaRows != 0;
    return (transposed ? tile.columns : tile.rows) / kWgmmaRows * kWarpgroup;
  }

  // Adds versions of the first one for few rows, which load no other rows.
  void WithFewRows(std::vector<Version>* versions) const {
    if (versions->empty() || !RowsOfTensor().defined()) return;
    for (int64_t most : kFewRows) {
      versions->insert(versions->begin(), OfFewRows(versions->front(), most));
    }
  }

  static Version UpTo(const ir::KernelLaunchNode* op, size_t axis, int64_t most,
                      const TileExtents& tile) {
    ir::Array<Expr> grid = op->grid;
    Expr inside = ir::ExtentInside(grid[axis]);
    Expr bound = ir::Const(inside.dtype(), most);
    grid.Set(axis, ir::EmptyLike(grid[axis], ir::Min(inside, bound)));
    ir::KernelLaunch launch(op->block_vars, grid, op->thread_vars, op->threads, op->attrs, op->body,
                            op->span);
    return {launch, tile, inside <= bound};
  }

  // Returns versions of wide tiles, each where its waves take the least time; the launch itself
  // where there are none.
  std::vector<Version> ManyWaves(const ir::KernelLaunchNode* op) const {
    std::vector<Version> versions;
    std::vector<Expr> costs;
    for (const TileExtents& tile : kWide) {
      if (!ComputesByElement(op, plain_)) break;
      Stmt wide = WithWiderTiles(func_, op, tile, target_);
      if (!wide.defined()) continue;
      versions.push_back(
          {ir::ffi::GetRef<ir::KernelLaunch>(wide.as<ir::KernelLaunchNode>()), tile, Expr()});
      costs.push_back(CostOf(versions.back().launch.get()));
    }
    for (size_t i = 0; i < versions.size(); ++i) {
      Expr least = ir::Const(ir::dtypes::kBool, 1);
      for (size_t j = 0; j < versions.size(); ++j) {
        if (j == i) continue;
        Expr better = j < i ? costs[i] < costs[j] : costs[i] <= costs[j];
        least = j == (i == 0 ? 1 : 0) ? better : least && better;
      }
      versions[i].fits = least;
    }
    if (versions.empty()) {
      versions.push_back(
          {ir::ffi::GetRef<ir::KernelLaunch>(op), kNarrow, ir::Const(ir::dtypes::kBool, 1)});
    }
    return versions;
  }

  // Returns the cost in thousandths, by tiling/tile_cost.h.
  Expr CostOf(const ir::KernelLaunchNode* op) const {
    TileGrid grid = GridOf(op, FindPlainGemm(op));
    grid.iterations = 1;  // as many of each
    auto of_wave = static_cast<int64_t>(std::lround(1000 * grid.CostOfTile()));
    Expr waves = ir::CeilDiv(Inside(op, 0) * Inside(op, 1), I64(target_->sm_count));
    return waves * I64(of_wave);
  }

  static void RemarkVersions(const ir::KernelLaunchNode* op, const std::vector<Version>& versions) {
    std::string tiles;
    for (const Version& version : versions) {
      bool last = &version == &versions.back();
      tiles += (tiles.empty() ? "" : last ? " or " : ", ") + Text(version.tile) + version.remark;
    }
    bool shares = std::any_of(versions.begin(), versions.end(),
                              [](const Version& version) { return version.parts > 1; });
    std::string sums = shares ? "Clusters of blocks share the iterations of the loop and add up "
                                "their sums, which have other last bits than those of one block; "
                                "the pass option tl.disable_split_k leaves each tile to one block. "
                              : "";
    Remark(op->span, "tiles",
           "T.Kernel: the best tiles depend on the dynamic sizes. There are " +
               std::to_string(versions.size()) + " kernels, with tiles of " + tiles +
               " elements, and each call runs one of them. " + sums +
               "The pass option tl.disable_launch_versions keeps one kernel for all sizes");
  }

  ir::Func func_;
  Target target_;
  PlainGemm plain_;
};

}  // namespace

ir::Func TileBySize(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(SizeVersioner(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
