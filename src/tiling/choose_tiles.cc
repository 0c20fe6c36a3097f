#include "tiling/choose_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <string>

#include "analysis/kernel_scope.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"
#include "target/warp.h"
#include "tiling/add_parts.h"
#include "tiling/gemm_problem.h"
#include "tiling/loop_stages.h"
#include "tiling/order_blocks.h"
#include "tiling/pair_blocks.h"
#include "tiling/retile.h"
#include "tiling/tcgen05_tiles.h"
#include "tiling/tile_sequence.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

bool IsMatrixGemm(const PlainGemm& plain) {
  if (plain.gemms.size() != 1) return false;
  auto inputs = plain.gemms[0]->Inputs();
  return inputs.size() == 2 &&
         std::all_of(inputs.begin(), inputs.end(), [](const ir::GemmOperandNode* input) {
           return input->IsMatrix() && input->buffer().IsShared() && input->region.IsWhole();
         });
}

// The pass options that fix a choice of tiles.
class TileSettings {
 public:
  explicit TileSettings(const ir::Func& func)
      : columns_(func->attrs.Get(ir::kTileColumns)),
        pairs_(func->attrs.Get(ir::kTilePairs)),
        parts_(func->attrs.Get(ir::kTileParts)) {}

  bool Allow(const Tcgen05Tiles& tiles) const {
    return (!columns_ || (*columns_).cast<int64_t>() == tiles.tile.columns) &&
           (!pairs_ || (*pairs_).cast<bool>() == tiles.pairs) &&
           (!parts_ || (*parts_).cast<int64_t>() == tiles.parts);
  }

 private:
  ir::ffi::Optional<ir::Any> columns_, pairs_, parts_;
};

class TileChooser : public ir::StmtMutator {
 public:
  TileChooser(const ir::Func& func, const Target& target)
      : func_(func),
        target_(target),
        settings_(func),
        whole_sums_(func->attrs.count(ir::kWholeSums) != 0) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && IsMatrixGemm(plain) && op->threads.size() == 1 &&
                    op->attrs.count("cluster_dims") == 0;
    if (!possible || !LoadsByTma(func_, op, plain, target_)) return self;
    op::ThreadRange threads{0, analysis::ThreadsOf(op).count};
    if (!op::Tcgen05Lacks(plain.gemms[0], threads, {}, target_).empty()) return self;
    auto problem = Describe(op, plain);
    if (!problem) return self;
    for (const Tcgen05Tiles& tiles : ProposeTcgen05(*problem, target_)) {
      if (!settings_.Allow(tiles)) continue;
      Stmt rewritten = Apply(op, *problem, tiles);
      if (!rewritten.defined()) continue;
      Say(op, *problem, tiles);
      return rewritten;
    }
    return self;
  }

 private:
  // The launch with these tiles; null where it cannot be rewritten.
  Stmt Apply(const ir::KernelLaunchNode* op, const GemmProblem& problem,
             const Tcgen05Tiles& tiles) const {
    Stmt cut = WithExtents(op, problem, tiles.tile);
    if (!cut.defined()) return Stmt();
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    PlainGemm plain = FindPlainGemm(launch);
    if (plain.loop == nullptr || (tiles.pairs && !CanPair(func_, launch, plain, target_)) ||
        !LoadsByTma(func_, launch, plain, target_)) {
      return Stmt();
    }
    int64_t cluster = tiles.pairs ? op::kPairBlocks : 1;
    bool several = BlocksOf(launch, cluster) > target_->sm_count;
    if (tiles.parts > 1) {
      bool can = !whole_sums_ && CanShareIterations(launch, plain, tiles.parts, ir::GemmDim::kN);
      if (!can) return Stmt();
      Stmt staged = WithStages(cut, plain.loop, StagesFor(launch, tiles));
      return WithParts(staged.as<ir::KernelLaunchNode>(), tiles.parts, ir::GemmDim::kN);
    }
    if ((several || tiles.pairs) && !CanTakeTurns(launch, plain)) return Stmt();
    if (!several && !tiles.pairs) return WithStages(cut, plain.loop, StagesFor(launch, tiles));
    int64_t wave = target_->sm_count;
    ir::KernelLaunch ordered = OrderedByPanels(launch, wave);
    int64_t clusters = std::min(wave, BlocksOf(launch, cluster)) / cluster;
    if (clusters == 0) return Stmt();  // a GPU of one multiprocessor, or an empty grid
    SequencedLaunch blocks = InSequence(ordered.operator->(), {clusters, cluster});
    Stmt staged = WithStages(blocks.launch, plain.loop, StagesFor(launch, tiles));
    return tiles.pairs ? InPairs(staged, plain, blocks.rank) : staged;
  }

  // Returns the launch with tiles of these extents and the threads of the program; null where it
  // cannot be rewritten.
  Stmt WithExtents(const ir::KernelLaunchNode* op, const GemmProblem& problem,
                   const TileExtents& tile) const {
    Stmt launch = ir::ffi::GetRef<Stmt>(op);
    auto cut = [&](ir::GemmDim dim, int64_t from, int64_t to) {
      if (from == to || !launch.defined()) return;
      launch = CutTile(func_, launch.as<ir::KernelLaunchNode>(), dim, from, to, problem.threads);
    };
    cut(ir::GemmDim::kN, problem.tile.columns, tile.columns);
    cut(ir::GemmDim::kM, problem.tile.rows, tile.rows);
    return launch;
  }

  static int64_t StagesFor(const ir::KernelLaunchNode* launch, const Tcgen05Tiles& tiles) {
    PlainGemm plain = FindPlainGemm(launch);
    int64_t iterations = CeilDiv(StagesOf(launch, plain).iterations, tiles.parts);
    return std::max<int64_t>(2, std::min(tiles.stages, iterations));
  }

  // Blocks of a launch, its rows a multiple of a cluster's; many where they are dynamic.
  int64_t BlocksOf(const ir::KernelLaunchNode* launch, int64_t cluster) const {
    int64_t blocks = 1;
    for (size_t axis = 0; axis < launch->grid.size(); ++axis) {
      auto extent = ir::AsInt(launch->grid[axis]);
      if (!extent) return 2 * target_->sm_count;
      blocks *= axis == 1 ? CeilDiv(*extent, cluster) * cluster : *extent;
    }
    return blocks;
  }

  void Say(const ir::KernelLaunchNode* op, const GemmProblem& problem,
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

  ir::Func func_;
  Target target_;
  TileSettings settings_;
  bool whole_sums_;  // each sum is that of one block
};

}  // namespace

ir::Func ChooseTiles(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 || !target->has_tma) return func;
  return func.WithBody(TileChooser(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
