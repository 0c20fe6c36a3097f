#include "tiling/choose_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "analysis/kernel_scope.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"
#include "target/rates.h"
#include "target/warp.h"
#include "tiling/add_parts.h"
#include "tiling/considered_tiles.h"
#include "tiling/gemm_problem.h"
#include "tiling/loop_stages.h"
#include "tiling/one_wave.h"
#include "tiling/order_blocks.h"
#include "tiling/pair_blocks.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/row_ranges.h"
#include "tiling/tcgen05_tiles.h"
#include "tiling/tile_sequence.h"
#include "tiling/tile_settings.h"
#include "tiling/wide_tiles.h"
#include "transform/launch_condition.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr size_t kMostRanges = 6;  // of dynamic rows, each with a kernel

// Returns whether both matrices, and their scale factors in atoms if there are some, are shared
// tiles.
bool HasSharedInputs(const PlainGemm& plain) {
  if (plain.gemms.size() != 1 || plain.gemms[0]->IsSparse()) return false;
  auto inputs = plain.gemms[0]->Inputs();
  return std::all_of(inputs.begin(), inputs.end(), [](const ir::GemmOperandNode* input) {
    return input->buffer().IsShared() && input->region.IsWhole();
  });
}

// Adds a remark about a candidate that the model prefers by so much, and what excludes it.
void RemarkExclusion(const ir::Span& span, double gain, const std::string& candidate,
                     const std::string& reason) {
  auto percent = static_cast<int64_t>(100 * gain + 0.5);
  Remark(span, "tiles",
         "T.Kernel: the model of tiles predicts " + std::to_string(percent) + " % less time for " +
             candidate + ", but " + reason);
}

// On targets with tcgen05.
class TileChooser : public ir::StmtMutator {
 public:
  TileChooser(const ir::Func& func, const Target& target)
      : func_(func),
        target_(target),
        settings_(func),
        whole_sums_(Has(ir::kWholeSums) || Has(ir::kGivenBlocks)),
        given_stages_(Has(ir::kGivenBlocks)),
        given_order_(Has(ir::kGivenOrder)),
        one_tile_each_(Has(ir::kOneTileEach)),
        one_for_all_calls_(Has(ir::kOneForAllCalls)) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && HasSharedInputs(plain) && op->threads.size() == 1 &&
                    op->attrs.count("cluster_dims") == 0;
    if (!possible || !LoadsByTma(func_, op, plain, target_)) return self;
    op::ThreadRange threads{0, analysis::ThreadsOf(op).count};
    if (!op::Tcgen05Lacks(plain.gemms[0], threads, {}, target_).empty()) return self;
    auto problem = Describe(op, plain);
    if (!problem) return self;
    Stmt by_rows = one_for_all_calls_ ? Stmt() : ByRows(op, *problem);
    return by_rows.defined() ? by_rows : Cheapest(op, *problem);
  }

 private:
  // A candidate to which the program cannot be rewritten.
  struct Exclusion {
    Tcgen05Tiles tiles;
    std::string reason;  // empty where the user or the GPU excludes it
    ir::Span span;       // of what the reason is about
  };

  // The launch with the cheapest tiles to which it can be rewritten; the launch itself if there are
  // none.
  Stmt Cheapest(const ir::KernelLaunchNode* op, const GemmProblem& problem) const {
    std::vector<ConsideredTiles> considered;
    std::optional<Exclusion> cheapest;
    Stmt chosen;
    for (const Tcgen05Tiles& tiles : ProposeTcgen05(problem, target_)) {
      if (!settings_.Allow(tiles.tile.columns, tiles.pairs, tiles.parts)) continue;
      ConsideredTiles note{tiles.tile, tiles.pairs, false, tiles.parts, Microseconds(tiles)};
      if (!chosen.defined()) {
        Exclusion excluded{tiles, "", op->span};
        chosen = Apply(op, problem, tiles, &excluded);
        note.chosen = chosen.defined();
        if (note.chosen) {
          RemarkChoice(op, problem, tiles);
          if (cheapest) RemarkExcludedTiles(*cheapest, tiles);
        } else {
          if (excluded.reason.empty()) continue;
          note.reason = excluded.reason;
          if (!cheapest) cheapest = excluded;
        }
      }
      considered.push_back(note);
    }
    return WithConsidered(chosen.defined() ? chosen : ir::ffi::GetRef<Stmt>(op), considered);
  }

  // A launch for each range of dynamic rows, of which a call runs one; null where the rows are
  // constant, or one launch is as good for all.
  Stmt ByRows(const ir::KernelLaunchNode* op, const GemmProblem& problem) const {
    if (!problem.dynamic_m.defined()) return Stmt();
    std::map<int64_t, Stmt> launches;  // by the most rows of their range
    auto applies = [&](const RowRange& range) {
      GemmProblem call = problem;
      call.most_m = range.most;
      Exclusion excluded{range.tiles, "", op->span};
      launches[range.most] = Apply(op, call, range.tiles, &excluded);
      return launches[range.most].defined();
    };
    // The launch is one of two if vectors cannot copy all rows (tiling/version_launches.h).
    bool is_version = !ir::ExtentInside(op->grid[0]).same_as(op->grid[0]);
    size_t count = is_version ? kMostRanges / 2 : kMostRanges;
    std::vector<RowRange> ranges = DivideRows(problem, target_, settings_, count, applies);
    if (ranges.size() < 2) return Stmt();
    const ir::Expr& rows = problem.dynamic_m;
    ir::Expr more = ir::Const(ir::dtypes::kBool, 1);
    std::vector<Stmt> stmts;
    for (const RowRange& range : ranges) {
      ir::Expr fits = more;
      if (range.most != kAnyExtent) {
        ir::Expr most = rows <= ir::Const(rows.dtype(), range.most);
        fits = stmts.empty() ? most : more && most;
        more = ir::Not(most);
      }
      ConsideredTiles note{range.tiles.tile,  range.tiles.pairs,         false,
                           range.tiles.parts, Microseconds(range.tiles), true};
      Stmt launch = WithConsidered(launches[range.most], {note});
      stmts.push_back(transform::LaunchWhere(fits, launch.as<ir::KernelLaunchNode>()));
    }
    RemarkRanges(op, ranges);
    return ir::Seq(stmts, op->span);
  }

  static void RemarkRanges(const ir::KernelLaunchNode* op, const std::vector<RowRange>& ranges) {
    std::string text;
    for (const RowRange& range : ranges) {
      bool last = range.most == kAnyExtent;
      text += (text.empty() ? "" : last ? " or " : ", ") + Text(range.tiles.tile);
      if (range.tiles.pairs) text += " in pairs";
      if (range.tiles.parts > 1) text += " by clusters of " + std::to_string(range.tiles.parts);
      text += last ? " (more rows)" : " (up to " + std::to_string(range.most) + " rows)";
    }
    bool shares = std::any_of(ranges.begin(), ranges.end(),
                              [](const RowRange& range) { return range.tiles.parts > 1; });
    std::string sums = shares ? "Clusters share the iterations of a tile and add their sums, which "
                                "tl.disable_split_k turns off. "
                              : "";
    Remark(op->span, "tiles",
           "T.Kernel: the best tiles depend on the rows of a call. There are " +
               std::to_string(ranges.size()) + " kernels, of which a call runs one: " + text +
               ". " + sums + "The pass option tl.disable_launch_versions leaves one for all rows");
  }

  // Returns the launch with these tiles, or null and the reason if it cannot be rewritten.
  Stmt Apply(const ir::KernelLaunchNode* op, const GemmProblem& problem, const Tcgen05Tiles& tiles,
             Exclusion* excluded) const {
    Stmt cut = WithTiles(func_, op, problem.tile, tiles.tile, problem.threads, &excluded->span);
    if (!cut.defined()) {
      excluded->reason = "the elements of this statement do not each belong to one row or column";
      return Stmt();
    }
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    PlainGemm plain = FindPlainGemm(launch);
    if (plain.loop == nullptr || !LoadsByTma(func_, launch, plain, target_)) return Stmt();
    if (tiles.pairs && !CanPair(func_, launch, plain, target_)) {
      excluded->reason = "not every two blocks, one below the other, can share a tile of B";
      return Stmt();
    }
    if (tiles.parts == 1) return InTurn(cut, plain, problem, tiles, &excluded->reason);
    if (whole_sums_) return Stmt();
    Stmt staged = WithStages(cut, plain.loop, StagesFor(launch, tiles));
    Stmt split = WithParts(func_, staged.as<ir::KernelLaunchNode>(), tiles.parts, ir::GemmDim::kN);
    if (!split.defined()) {
      excluded->reason =
          "blocks can add their sums only if these begin with zero, and if each statement after "
          "the loop treats columns one by one";
    }
    return split;
  }

  // Returns the launch `cut`, whose blocks compute tiles in turn if there are more of them than
  // multiprocessors; in pairs or not.
  Stmt InTurn(const Stmt& cut, const PlainGemm& plain, const GemmProblem& problem,
              const Tcgen05Tiles& tiles, std::string* reason) const {
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    int64_t cluster = tiles.pairs ? op::kPairBlocks : 1;
    int64_t wave = target_->sm_count;
    int64_t count = BlocksOf(launch, problem, tiles);
    bool alone = count <= wave || one_tile_each_;
    if (alone && !tiles.pairs) return WithStages(cut, plain.loop, StagesFor(launch, tiles));
    if (!CanTakeTurns(launch, plain)) {
      *reason =
          "a block can compute several tiles in turn only if blocks do not see each other, "
          "and if their loops have equally many iterations";
      return Stmt();
    }
    if (one_tile_each_ && !HasConstantGrid(launch)) return Stmt();
    ir::KernelLaunch ordered =
        given_order_ ? ir::ffi::GetRef<ir::KernelLaunch>(launch) : OrderedByPanels(launch, wave);
    int64_t clusters = (one_tile_each_ ? count : std::min(wave, count)) / cluster;
    if (clusters == 0) return Stmt();  // a GPU of one multiprocessor, or an empty grid
    SequencedLaunch blocks = InSequence(ordered.operator->(), {clusters, cluster});
    Stmt staged = WithStages(blocks.launch, plain.loop, StagesFor(launch, tiles));
    return tiles.pairs ? InPairs(staged, plain, blocks.rank) : staged;
  }

  double Microseconds(const Tcgen05Tiles& tiles) const {
    return tiles.clocks / RatesOf(target_).clock * 1e6;
  }

  int64_t StagesFor(const ir::KernelLaunchNode* launch, const Tcgen05Tiles& tiles) const {
    LoopStages loop = StagesOf(launch, FindPlainGemm(launch));
    int64_t most = given_stages_ ? loop.given : CeilDiv(loop.iterations, tiles.parts);
    return std::max<int64_t>(2, std::min(tiles.stages, most));
  }

  static bool HasConstantGrid(const ir::KernelLaunchNode* launch) {
    return std::all_of(launch->grid.begin(), launch->grid.end(),
                       [](const ir::Expr& extent) { return ir::AsInt(extent).has_value(); });
  }

  bool Has(const char* setting) const { return func_->attrs.count(setting) != 0; }

  // The most blocks of a launch, its rows a multiple of a cluster's; many where they are dynamic.
  int64_t BlocksOf(const ir::KernelLaunchNode* launch, const GemmProblem& problem,
                   const Tcgen05Tiles& tiles) const {
    int64_t cluster = tiles.pairs ? op::kPairBlocks : 1;
    int64_t blocks = 1;
    bool limited = problem.dynamic_m.defined() && problem.most_m != kAnyExtent;
    for (size_t axis = 0; axis < launch->grid.size(); ++axis) {
      auto extent = ir::AsInt(ir::ExtentInside(launch->grid[axis]));
      if (!extent && std::exchange(limited, false)) {  // one axis counts the rows
        extent = CeilDiv(problem.most_m, tiles.tile.rows);
      }
      if (!extent) return 2 * target_->sm_count;
      blocks *= axis == 1 ? CeilDiv(*extent, cluster) * cluster : *extent;
    }
    return blocks;
  }

  void RemarkChoice(const ir::KernelLaunchNode* op, const GemmProblem& problem,
                    const Tcgen05Tiles& tiles) const {
    std::string text = "T.Kernel: blocks compute tiles of " + Text(tiles.tile) + " elements";
    if (tiles.tile.rows != problem.tile.rows || tiles.tile.columns != problem.tile.columns) {
      text += " instead of " + Text(problem.tile);
    }
    text += ", with " + std::to_string(tiles.stages) + " stages at most";
    if (tiles.pairs) text += "; pairs of blocks multiply with halves of B, as by use_2cta=True";
    if (tiles.parts > 1) {
      text += "; " + std::to_string(tiles.parts) +
              " blocks of a cluster share the iterations of a tile and add their sums, which "
              "tl.disable_split_k turns off";
    }
    text +=
        ". The model of tiles predicts the least time for them. The pass option "
        "tl.disable_tile_choice turns this off";
    Remark(op->span, "tiles", text);
  }

  // Adds a remark about a candidate that would take clearly less time than the chosen one.
  static void RemarkExcludedTiles(const Exclusion& excluded, const Tcgen05Tiles& chosen) {
    if (excluded.tiles.clocks >= kClearGain * chosen.clocks) return;
    std::string text = "tiles of " + Text(excluded.tiles.tile) + " elements";
    if (excluded.tiles.pairs) text += " in pairs of blocks";
    if (excluded.tiles.parts > 1) {
      text += " whose iterations " + std::to_string(excluded.tiles.parts) + " blocks share";
    }
    RemarkExclusion(excluded.span, 1 - excluded.tiles.clocks / chosen.clocks, text,
                    excluded.reason);
  }

  ir::Func func_;
  Target target_;
  TileSettings settings_;
  bool whole_sums_;  // each sum is that of one block
  bool given_stages_;
  bool given_order_;
  bool one_tile_each_;
  bool one_for_all_calls_;
};

// On targets with wgmma.
class WgmmaTileChooser : public ir::StmtMutator {
 public:
  WgmmaTileChooser(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    if (plain.loop == nullptr || !ir::AsInts(op->grid)) return self;
    WideTiles wide = ChooseWideTiles(func_, op, plain, target_);
    OneWave wave = InOneWave(op, plain, wide.cost);
    if (wave.launch.defined()) {
      RemarkChoice(op, wave.choice, TileOf(plain));
      return WithConsidered(wave.launch, wave.considered);
    }
    if (!wide.launch.same_as(self)) RemarkWideTiles(wide);
    ConsideredTiles chosen{wide.launch.same_as(self) ? TileOf(plain) : wide.tile};
    chosen.microseconds = MicrosecondsOf(std::max(wave.cost, wide.cost));
    chosen.chosen = true;
    wave.considered.push_back(chosen);
    return WithConsidered(wide.launch, wave.considered);
  }

 private:
  OneWave InOneWave(const ir::KernelLaunchNode* op, const PlainGemm& plain,
                    double otherwise) const {
    ir::Expr extent = ExtentOfTensor(plain, ir::GemmDim::kM);
    auto rows = extent.defined() ? ir::AsInt(extent) : std::nullopt;
    if (!rows || func_->attrs.count(ir::kGivenBlocks) != 0) return {};
    OneWave wave = ChooseOneWave(func_, op, plain, *rows, otherwise, target_);
    if (!wave.reason.empty() && wave.excluded.cost < kClearGain * wave.cost) {
      std::string text = "tiles of " + Text(wave.excluded.tile) + " elements";
      if (wave.excluded.parts > 1) {
        text += " whose iterations " + std::to_string(wave.excluded.parts) + " blocks share";
      }
      RemarkExclusion(wave.span, 1 - wave.excluded.cost / wave.cost, text, wave.reason);
    }
    return wave;
  }

  static void RemarkWideTiles(const WideTiles& wide) {
    const auto* launch = wide.launch.as<ir::KernelLaunchNode>();
    Remark(launch->span, "tiles",
           "T.Kernel: " + std::to_string(BlocksOf(launch)) + " blocks of " +
               std::to_string(*ir::AsInt(launch->threads[0])) + " threads compute " +
               Text(wide.tile) + " elements each instead of " + Text(kNarrow) +
               ": they load fewer bytes for as many products. The pass option "
               "tl.disable_tile_widening turns this off");
  }

  static TileExtents TileOf(const PlainGemm& plain) {
    const ir::GemmOperandNode* c = plain.gemms[0]->Operand(ir::GemmOperandKind::kC);
    return {ExtentAlong(c, ir::GemmDim::kM), ExtentAlong(c, ir::GemmDim::kN)};
  }

  static void RemarkChoice(const ir::KernelLaunchNode* op, const WaveTiles& choice,
                           const TileExtents& from) {
    std::string parts = std::to_string(choice.parts);
    std::string text = "T.Kernel: " + std::to_string(choice.tiles * choice.parts) + " blocks of " +
                       std::to_string(choice.Threads()) + " threads compute " + Text(choice.tile) +
                       " elements ";
    if (choice.parts == 1) {
      text += "each instead of " + Text(from) + ", and all of them run at a time. The pass option ";
    } else {
      text +=
          "a cluster of " + parts + " instead of " + Text(from) +
          " each: clusters share the iterations of the loop, so that more multiprocessors "
          "load, and add up their sums, which have other last bits than those of one block, the "
          "same ones in each call. The pass option tl.disable_split_k leaves each tile to one "
          "block; ";
    }
    Remark(op->span, "tiles", text + "tl.disable_tile_choice turns this off");
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func ChooseTiles(const ir::Func& func, const Target& target) {
  if (!target->has_tma) return func;
  if (target->has_tcgen05) return func.WithBody(TileChooser(func, target).MutateStmt(func->body));
  if (!target->has_wgmma) return func;
  return func.WithBody(WgmmaTileChooser(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
