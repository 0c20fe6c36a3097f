#include "tiling/choose_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/grid_blocks.h"
#include "arith/analyzer.h"
#include "ir/changed_launch.h"
#include "ir/launch_extent.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "tiling/call_kernels.h"
#include "tiling/considered_tiles.h"
#include "tiling/gemm_problem.h"
#include "tiling/loop_once.h"
#include "tiling/retile.h"
#include "tiling/tile_rules.h"
#include "tiling/tile_settings.h"
#include "transform/launch_condition.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// The most kernels of a GEMM with dynamic sizes, and of one whose tensors have rows of dynamic
// length: others run in calls in which TMA cannot copy these.
constexpr size_t kMostKernels = 6;
constexpr size_t kMostOfVersion = 5;

Expr I64(int64_t value) { return ir::Const(ir::dtypes::kInt64, value); }

// A kernel of several, of which a call runs one.
struct Version {
  CallKernel kernel;
  Expr fits;          // whether a call can run it
  std::string calls;  // that run it, if the kernels before do not
};

class TileChooser : public ir::StmtMutator {
 public:
  TileChooser(const ir::Func& func, const Target& target)
      : func_(func), target_(target), settings_(func) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    ir::KernelLaunch launch = WithLoopOnce(op);
    PlainGemm plain = FindPlainGemm(launch.operator->(), Operands::kComputed);
    if (plain.loop == nullptr || op->threads.size() != 1) return self;
    auto problem = Describe(launch.operator->(), plain);
    bool wgmma = problem && problem->products == 1 && !problem->IsComputed();
    bool tcgen05 = problem && !(problem->IsComputed() && problem->IsDynamic());
    if (!(target_->has_tcgen05 ? tcgen05 : wgmma)) return self;
    auto rules = target_->has_tcgen05
                     ? Tcgen05Rules(func_, launch.operator->(), *problem, plain, target_)
                     : WgmmaRules(func_, launch.operator->(), *problem, plain, target_);
    if (rules == nullptr) return self;
    return problem->IsDynamic() ? ForCalls(op, *problem, *rules) : Best(op, *problem, *rules);
  }

 private:
  // Returns the launch with the best tiles to which it can be rewritten; the launch itself if there
  // are none.
  Stmt Best(const ir::KernelLaunchNode* op, const GemmProblem& problem,
            const TileRules& rules) const {
    std::vector<ConsideredTiles> considered;
    std::optional<Candidate> best;
    size_t noted = 0;  // the number of the best one
    std::optional<Exclusion> excluded;
    TiledLaunch chosen;
    for (const Candidate& candidate : rules.Propose(problem)) {
      const TileForm& form = candidate.form;
      if (!settings_.Allow(form.tile.columns, form.pairs, form.parts)) continue;
      Exclusion tried{candidate, "", op->span};
      if (!best || rules.IsBetter(candidate, *best)) {
        TiledLaunch tiled = rules.Apply(candidate, false, &tried);
        if (tiled.launch.defined()) {
          best = candidate;
          chosen = tiled;
          noted = considered.size();
        } else if (tried.reason.empty()) {
          continue;
        } else if (!excluded || candidate.microseconds < excluded->candidate.microseconds) {
          excluded = tried;
        }
      }
      considered.push_back({candidate, false, tried.reason});
    }
    if (!best) return WithConsidered(ir::ffi::GetRef<Stmt>(op), considered);
    considered[noted].chosen = true;
    std::string text = rules.Remark(*best, chosen);
    if (!text.empty()) Remark(op->span, "tiles", text);
    if (excluded) RemarkExclusion(*excluded, *best);
    return WithConsidered(chosen.launch, considered);
  }

  // Adds a remark about a candidate that the model clearly prefers, and what excludes it.
  static void RemarkExclusion(const Exclusion& excluded, const Candidate& chosen) {
    const Candidate& other = excluded.candidate;
    if (other.microseconds >= kClearGain * chosen.microseconds) return;
    double gain = 1 - other.microseconds / chosen.microseconds;
    Remark(excluded.span, "tiles",
           "T.Kernel: the model of tiles predicts " +
               std::to_string(static_cast<int64_t>(100 * gain + 0.5)) +
               " % less time for tiles of " + Text(other.form) + ", but " + excluded.reason);
  }

  // Returns launches for calls of different sizes, of which a call runs one.
  Stmt ForCalls(const ir::KernelLaunchNode* op, const GemmProblem& problem,
                const TileRules& rules) const {
    // The launch is one of several if vectors cannot copy all rows (tiling/version_launches.h).
    bool is_version = !ir::ExtentInside(op->grid[0]).same_as(op->grid[0]);
    bool one = func_->attrs.count(ir::kOneForAllCalls) != 0 || op->attrs.count(kFewCalls) != 0;
    size_t count = one ? 1 : is_version ? kMostOfVersion : kMostKernels;
    std::optional<Exclusion> excluded;  // the first one
    auto apply = [&](const CallKernel& kernel) {
      Exclusion tried{kernel.candidate, "", op->span};
      TiledLaunch tiled = rules.Apply(kernel.candidate, kernel.in_one_wave, &tried);
      if (!tiled.launch.defined() && !tried.reason.empty() && !excluded) excluded = tried;
      return tiled;
    };
    std::vector<Version> versions;
    for (const CallKernel& kernel : ChooseKernels(rules, problem, settings_, count, apply)) {
      versions.push_back({kernel});
    }
    if (excluded) {
      Remark(excluded->span, "tiles",
             "T.Kernel: for some calls the model of tiles prefers tiles of " +
                 Text(excluded->candidate.form) + ", but " + excluded->reason);
    }
    if (versions.empty()) return ir::ffi::GetRef<Stmt>(op);
    if (versions.size() == 1) return OfAllCalls(op, versions[0], rules);
    FindConditions(&versions);
    std::vector<Stmt> launches;
    for (const Version& version : versions) {
      Stmt launch = transform::LaunchWhere(version.fits, Limited(version).get());
      launches.push_back(WithConsidered(launch, {{version.kernel.candidate, true, ""}}));
    }
    RemarkVersions(op, versions);
    return ir::Seq(launches, op->span);
  }

  static Stmt OfAllCalls(const ir::KernelLaunchNode* op, const Version& version,
                         const TileRules& rules) {
    std::string text = rules.Remark(version.kernel.candidate, version.kernel.tiled);
    if (!text.empty()) Remark(op->span, "tiles", text);
    return WithConsidered(version.kernel.tiled.launch, {{version.kernel.candidate, true, ""}});
  }

  // Returns the launch with the number of blocks that its calls do not exceed.
  static ir::KernelLaunch Limited(const Version& version) {
    const auto* op = version.kernel.tiled.launch.as<ir::KernelLaunchNode>();
    if (!version.kernel.in_one_wave) return ir::ffi::GetRef<ir::KernelLaunch>(op);
    const Candidate& candidate = version.kernel.candidate;
    return ir::WithAttr(op, analysis::kMostBlocks, candidate.wave * candidate.form.parts);
  }

  // Sets the condition of each version: the first one that fits in a wave runs, else the one whose
  // waves cost least.
  void FindConditions(std::vector<Version>* versions) const {
    Expr none = ir::Const(ir::dtypes::kBool, 1);
    std::vector<Version*> others;
    for (Version& version : *versions) {
      if (!version.kernel.in_one_wave) {
        others.push_back(&version);
        continue;
      }
      auto [fits, rows] = InOneWave(version);
      version.fits = none && fits;
      version.calls = rows;
      none = none && ir::Not(fits);
    }
    arith::Analyzer analyzer;
    analyzer.BindParams(func_->params);
    for (Version* version : others) {
      Expr least = none;
      for (const Version* other : others) {
        if (other == version) continue;
        Expr own = CostOf(*version);
        least = least && (other < version ? own < CostOf(*other) : own <= CostOf(*other));
      }
      version->fits = least;
    }
    std::erase_if(*versions, [&](const Version& version) {
      return analyzer.CanProve(ir::Not(version.fits));  // another is as good for all sizes
    });
  }

  // Returns whether the GPU computes all tiles of a call at a time, and the calls of which it does.
  static std::pair<Expr, std::string> InOneWave(const Version& version) {
    int64_t most = version.kernel.candidate.wave;
    std::string text = "up to " + std::to_string(most) + " tiles";
    std::vector<Expr> dynamic;
    for (const Expr& extent : version.kernel.tiled.grid) {
      auto known = ir::AsInt(extent);
      if (known) most /= std::max<int64_t>(*known, 1);
      if (!known) dynamic.push_back(extent);
    }
    const auto* quotient = dynamic.size() == 1 ? dynamic[0].as<ir::BinaryNode>() : nullptr;
    if (quotient == nullptr || quotient->Op() != ir::BinaryOp::kFloorDiv ||
        !ir::AsInt(quotient->b)) {
      return {TilesOf(version) <= I64(version.kernel.candidate.wave), text};
    }
    // The elements that a grid divides into tiles, rounded up.
    int64_t tile = *ir::AsInt(quotient->b);
    arith::Analyzer analyzer;
    auto of = [&](int64_t value) { return ir::Const(quotient->a.dtype(), value); };
    Expr elements = analyzer.Simplify(quotient->a - of(tile - 1));
    Expr fits = elements <= of(most * tile);
    return {fits, ir::Print(fits)};
  }

  static Expr TilesOf(const Version& version) {
    Expr tiles = I64(1);
    for (const Expr& extent : version.kernel.tiled.grid) {
      tiles = tiles * ir::CastTo(ir::dtypes::kInt64, extent);
    }
    return tiles;
  }

  // Returns the cost of the waves of a call, in thousandths.
  static Expr CostOf(const Version& version) {
    const Candidate& candidate = version.kernel.candidate;
    auto cost = std::max<int64_t>(1, static_cast<int64_t>(1000 * candidate.wave_cost));
    return ir::CeilDiv(TilesOf(version), I64(candidate.wave)) * I64(cost);
  }

  static void RemarkVersions(const ir::KernelLaunchNode* op, const std::vector<Version>& versions) {
    std::string text;
    bool shares = false;
    for (const Version& version : versions) {
      bool last = &version == &versions.back();
      text += (text.empty() ? "" : last ? " or " : ", ") + Text(version.kernel.candidate.form);
      if (!version.calls.empty()) text += " (" + version.calls + ")";
      shares = shares || version.kernel.candidate.form.parts > 1;
    }
    std::string sums = shares ? "Clusters share the iterations of a tile and add their sums, which "
                                "have other last bits than those of one block; the pass option "
                                "tl.disable_split_k turns this off. "
                              : "";
    Remark(op->span, "tiles",
           "T.Kernel: the best tiles depend on the dynamic sizes. There are " +
               std::to_string(versions.size()) + " kernels, of which a call runs one: " + text +
               ". " + sums + "The pass option tl.disable_launch_versions leaves one for all sizes");
  }

  ir::Func func_;
  Target target_;
  TileSettings settings_;
};

}  // namespace

ir::Func ChooseTiles(const ir::Func& func, const Target& target) {
  if (!target->has_tma || (!target->has_tcgen05 && !target->has_wgmma)) return func;
  return func.WithBody(TileChooser(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
