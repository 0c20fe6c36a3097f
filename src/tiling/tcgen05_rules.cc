#include <tvm/ffi/cast.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/launch_extent.h"
#include "ir/settings.h"
#include "op/cta_pair.h"
#include "tiling/add_parts.h"
#include "tiling/loop_stages.h"
#include "tiling/order_blocks.h"
#include "tiling/pair_blocks.h"
#include "tiling/retile.h"
#include "tiling/tcgen05_tiles.h"
#include "tiling/tile_rules.h"
#include "tiling/tile_sequence.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether both matrices, and their scale factors in atoms if there are some, are whole
// tiles: in shared memory, or a fragment that goes to tensor memory.
bool HasWholeInputs(const ir::GemmNode* gemm) {
  auto inputs = gemm->Inputs();
  return std::all_of(inputs.begin(), inputs.end(), [](const ir::GemmOperandNode* input) {
    return IsTile(input->buffer()) && input->region.IsWhole();
  });
}

class RulesOfTcgen05 : public TileRules {
 public:
  RulesOfTcgen05(const ir::Func& func, const ir::KernelLaunchNode* launch,
                 const GemmProblem& problem, const Target& target)
      : func_(func),
        launch_(launch),
        problem_(problem),
        target_(target),
        whole_sums_(Has(ir::kWholeSums) || Has(ir::kGivenBlocks)),
        given_stages_(Has(ir::kGivenBlocks)),
        given_order_(Has(ir::kGivenOrder)),
        one_tile_each_(Has(ir::kOneTileEach)) {}

  std::vector<Candidate> Propose(const GemmProblem& problem) const override {
    return ProposeTcgen05(problem, target_);
  }

  Candidate Predict(const GemmProblem& problem, const Candidate& candidate,
                    bool in_one_wave) const override {
    return PredictTcgen05(problem, candidate.form, in_one_wave, target_);
  }

  bool IsBetter(const Candidate& other, const Candidate& best) const override {
    return other.microseconds < best.microseconds;
  }

  TiledLaunch Apply(const Candidate& candidate, bool in_one_wave,
                    Exclusion* excluded) const override {
    const TileForm& form = candidate.form;
    int64_t threads = ThreadsOfTcgen05(problem_, form);
    Stmt cut = WithTiles(func_, launch_, problem_.tile, form.tile, threads, &excluded->span);
    if (!cut.defined()) {
      excluded->reason = "the elements of this statement do not each belong to one row or column";
      return {};
    }
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    PlainGemm plain = FindPlainGemm(launch, Operands::kComputed);
    if (plain.loop == nullptr || !LoadsByTma(func_, launch, plain, target_) ||
        !AreByTcgen05(plain, threads, target_)) {
      return {};
    }
    if (form.pairs && !CanPair(func_, launch, plain, target_)) {
      excluded->reason = "not every two blocks, one below the other, can share a tile of B";
      return {};
    }
    ir::Array<Expr> grid = GridOf(launch, form.pairs);
    if (form.parts == 1) {
      return {InTurn(cut, plain, candidate, in_one_wave, &excluded->reason), grid};
    }
    if (whole_sums_) return {};
    Stmt staged = WithStages(cut, plain.loop, StagesFor(launch, candidate, 1));
    Stmt split = WithParts(func_, staged.as<ir::KernelLaunchNode>(), form.parts, ir::GemmDim::kN);
    if (!split.defined()) {
      excluded->reason =
          "blocks can add their sums only if these begin with zero, if no statement outside of "
          "the loop uses its tiles, and if each statement after the loop treats columns one by one";
    }
    return {split, grid};
  }

  std::string Remark(const Candidate& chosen, const TiledLaunch&) const override {
    const TileForm& form = chosen.form;
    std::string text = "T.Kernel: blocks compute tiles of " + Text(form.tile) + " elements";
    if (form.tile != problem_.tile) text += " instead of " + Text(problem_.tile);
    text += ", with " + std::to_string(chosen.stages) + " stages at most";
    if (form.pairs) text += "; pairs of blocks multiply with halves of B, as by use_2cta=True";
    if (form.parts > 1) {
      text += "; " + std::to_string(form.parts) +
              " blocks of a cluster share the iterations of a tile and add their sums, which "
              "tl.disable_split_k turns off";
    }
    return text +
           ". The model of tiles predicts the least time for them. The pass option "
           "tl.disable_tile_choice turns this off";
  }

 private:
  // Returns the launch `cut`, whose blocks compute tiles in turn if there are more of them than
  // multiprocessors; in pairs or not.
  Stmt InTurn(const Stmt& cut, const PlainGemm& plain, const Candidate& candidate, bool in_one_wave,
              std::string* reason) const {
    const auto* launch = cut.as<ir::KernelLaunchNode>();
    bool pairs = candidate.form.pairs;
    int64_t cluster = pairs ? op::kPairBlocks : 1;
    int64_t wave = target_->sm_count;
    int64_t count = in_one_wave ? wave : BlocksOf(launch, pairs);
    // Threads that compute operands would not do so while they store a result.
    bool alone = count <= wave || one_tile_each_ || problem_.IsComputed();
    if (alone && !pairs) return WithStages(cut, plain.loop, StagesFor(launch, candidate, 1));
    if (!CanTakeTurns(launch, plain)) {
      *reason =
          "a block can compute several tiles in turn only if blocks do not see each other, "
          "and if their loops have equally many iterations";
      return Stmt();
    }
    if (one_tile_each_ && !ir::AsInts(launch->grid)) return Stmt();
    ir::KernelLaunch ordered =
        given_order_ ? ir::ffi::GetRef<ir::KernelLaunch>(launch) : OrderedByPanels(launch, wave);
    int64_t clusters = (one_tile_each_ ? count : std::min(wave, count)) / cluster;
    if (clusters == 0) return Stmt();  // a GPU of one multiprocessor, or an empty grid
    SequencedLaunch blocks = InSequence(ordered.operator->(), {clusters, cluster});
    int64_t turns = one_tile_each_ ? 1 : CeilDiv(count, wave);
    Stmt staged = WithStages(blocks.launch, plain.loop, StagesFor(launch, candidate, turns));
    return pairs ? InPairs(staged, plain, blocks.rank) : staged;
  }

  // Returns the stages of a loop that a block runs for each of its `tiles` tiles.
  int64_t StagesFor(const ir::KernelLaunchNode* launch, const Candidate& candidate,
                    int64_t tiles) const {
    LoopStages loop = StagesOf(launch, FindPlainGemm(launch, Operands::kComputed));
    int64_t iterations = CeilDiv(loop.iterations, candidate.form.parts) * tiles;
    int64_t most = given_stages_ ? loop.given : iterations;
    return std::max<int64_t>(2, std::min(candidate.stages, most));
  }

  // Returns the extents of a grid, its rows a multiple of a pair's.
  static ir::Array<Expr> GridOf(const ir::KernelLaunchNode* launch, bool pairs) {
    ir::Array<Expr> grid = ir::ExtentsInside(launch->grid);
    if (!pairs) return grid;
    Expr two = ir::Const(grid[1].dtype(), op::kPairBlocks);
    grid.Set(1, ir::CeilDiv(grid[1], two) * two);
    return grid;
  }

  // Returns the blocks of a launch; many if they are dynamic.
  int64_t BlocksOf(const ir::KernelLaunchNode* launch, bool pairs) const {
    auto grid = ir::AsInts(GridOf(launch, pairs));
    if (!grid) return 2 * target_->sm_count;
    return std::accumulate(grid->begin(), grid->end(), int64_t{1}, std::multiplies<>());
  }

  bool Has(const char* setting) const { return func_->attrs.count(setting) != 0; }

  ir::Func func_;
  const ir::KernelLaunchNode* launch_;
  GemmProblem problem_;
  Target target_;
  bool whole_sums_;  // each sum is that of one block
  bool given_stages_;
  bool given_order_;
  bool one_tile_each_;
};

}  // namespace

std::unique_ptr<TileRules> Tcgen05Rules(const ir::Func& func, const ir::KernelLaunchNode* launch,
                                        const GemmProblem& problem, const PlainGemm& plain,
                                        const Target& target) {
  bool possible = std::all_of(plain.gemms.begin(), plain.gemms.end(), HasWholeInputs) &&
                  launch->attrs.count("cluster_dims") == 0 &&
                  LoadsByTma(func, launch, plain, target);
  if (!possible) return nullptr;
  return std::make_unique<RulesOfTcgen05>(func, launch, problem, target);
}

}  // namespace tilelang::tiling
