#include "tiling/share_loads.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>

#include "analysis/independent_blocks.h"
#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/gemm_wgmma.h"
#include "tiling/loop_stages.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_sequence.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kBothBlocks = (1 << kSharingBlocks) - 1;
constexpr size_t kRowAxis = 1;

// The index of a block along an axis, and the names whose values depend on it.
class BlockNames {
 public:
  BlockNames(const Stmt& body, const ir::Var& block) : names_{block.get()} {
    ir::WalkStmts(body, [&](const Stmt& s) {
      const auto* bind = s.as<ir::BindNode>();
      if (bind != nullptr && In(bind->value)) names_.insert(bind->var.get());
      return true;
    });
  }
  bool In(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) { return names_.count(part.get()) != 0; });
  }
  bool In(const ir::Region& region) const {
    return std::any_of(region->mins.begin(), region->mins.end(),
                       [&](const Expr& min) { return In(min); });
  }

 private:
  std::unordered_set<const ir::ffi::Object*> names_;
};

// Returns whether elements at these places, which a block number `count` or later stores, lie
// beyond the tensor.
bool EndsWithGrid(const ir::Buffer& tensor, const ir::Array<Expr>& places, const ir::Var& block,
                  const Expr& count, arith::Analyzer* analyzer) {
  for (size_t d = 0; d < places.size(); ++d) {
    auto stride = analyzer->StrideOf(places[d], block);
    if (!stride || *stride <= 0 || !analyzer->CanProveNonNegative(places[d])) continue;
    const Expr& extent = tensor->shape[d];
    Expr end = ir::CastTo(extent.dtype(), count) * ir::Const(extent.dtype(), *stride);
    if (analyzer->CanProve(extent <= end)) return true;
  }
  return false;
}

// Returns whether blocks number `count` or later along an axis would store nothing.
bool StoresEndWithGrid(const Stmt& body, const ir::Var& block, const Expr& count,
                       arith::Analyzer* analyzer) {
  bool end = true;
  ir::WalkStmts(body, [&](const Stmt& s) {
    if (const auto* copy = s.as<ir::CopyNode>()) {
      end = end && (!copy->dst->buffer.IsGlobal() ||
                    EndsWithGrid(copy->dst->buffer, copy->dst->mins, block, count, analyzer));
      return false;
    }
    const auto* loop = s.as<ir::ParallelForNode>();
    if (loop == nullptr) return true;
    arith::Analyzer::Scope scope(analyzer);
    for (size_t i = 0; i < loop->vars.size(); ++i) {
      analyzer->Bind(loop->vars[i], ir::Const(loop->vars[i].dtype(), 0), loop->extents[i]);
    }
    ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
      if (!effect.Writes() || !effect.buffer.IsGlobal()) return;
      ir::Array<Expr> places(effect.indices.begin(), effect.indices.end());
      end = end && EndsWithGrid(effect.buffer, places, block, count, analyzer);
    });
    return false;
  });
  return end;
}

// Returns whether the statement has the loop, and may run it in some blocks only, or otherwise
// often: a condition or an extent depends on the names or on memory.
bool Divides(const Stmt& s, const ir::ForNode* loop, const BlockNames& names) {
  std::vector<Expr> decides;
  if (const auto* branch = s.as<ir::IfNode>()) decides = {branch->condition};
  if (const auto* around = s.as<ir::ForNode>()) decides = {around->min, around->extent};
  if (const auto* around = s.as<ir::WhileNode>()) decides = {around->condition};
  bool may = std::any_of(decides.begin(), decides.end(),
                         [&](const Expr& e) { return names.In(e) || ir::HasLoad(e); });
  return may && ir::HasStmt(s, [&](const Stmt& inner) { return inner.get() == loop; });
}

// Returns whether a load brings an operand that has elements along the dimension.
bool LoadsAlong(const PlainGemm& plain, const ir::CopyNode* load, ir::GemmDim dim) {
  return std::any_of(plain.gemms.begin(), plain.gemms.end(), [&](const ir::GemmNode* gemm) {
    std::vector<const ir::GemmOperandNode*> inputs = gemm->Inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](const ir::GemmOperandNode* input) {
      return input->buffer().same_as(load->dst->buffer) && input->DimAlong(dim);
    });
  });
}

class LoadSharer : public ir::StmtMutator {
 public:
  explicit LoadSharer(const std::vector<const ir::CopyNode*>& loads) : loads_(loads) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (std::count(loads_.begin(), loads_.end(), op) == 0) return ir::ffi::GetRef<Stmt>(op);
    return ir::Copy::Saying(
        op, [](ir::CopyOptionsNode* options) { options->cluster_mask = kBothBlocks; });
  }

 private:
  const std::vector<const ir::CopyNode*>& loads_;
};

class PairMaker : public ir::StmtMutator {
 public:
  PairMaker(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && ir::AsInts(op->grid) &&
                    op::MultipliesByWgmma(plain.gemms[0], analysis::ThreadsOf(op).count) &&
                    LoadsByTma(func_, op, plain, target_) && analysis::AreIndependent(op);
    int64_t rows = possible ? RowsThatShare(func_, op, plain) : 0;
    if (rows == 0 || !GridOf(op, plain).GainsByPairs(rows, target_)) return self;
    Remark(op->span, "tiles",
           "T.Kernel: two blocks, a cluster, load tiles of B together, since L2 serves more lines "
           "than their bytes fill. The pass option tl.disable_load_sharing turns this off");
    Stmt shared = ForBothBlocks(self, LoadsToShare(func_, op, plain));
    // All blocks run at a time, so that their order does not matter.
    ir::KernelLaunch launch = WithoutPanels(shared.as<ir::KernelLaunchNode>());
    launch =
        ir::WithAttr(launch.operator->(), "cluster_dims", ir::Array<int64_t>{1, kSharingBlocks, 1});
    ir::Array<Expr> grid = launch->grid;
    grid.Set(kRowAxis,
             ir::Const(grid[kRowAxis].dtype(), CeilDiv(rows, kSharingBlocks) * kSharingBlocks));
    return ir::WithGrid(launch.operator->(), grid);
  }

 private:
  ir::Func func_;
  Target target_;
};

}  // namespace

std::vector<const ir::CopyNode*> LoadsToShare(const ir::Func& func,
                                              const ir::KernelLaunchNode* launch,
                                              const PlainGemm& plain) {
  if (launch->grid.size() < 2 || launch->attrs.count("cluster_dims") != 0) return {};
  Expr extent = ir::ExtentInside(launch->grid[kRowAxis]);
  auto rows = ir::AsInt(extent);
  if (rows && *rows < 2) return {};
  const ir::Var& block = launch->block_vars[kRowAxis];
  arith::Analyzer analyzer;
  analyzer.BindParams(func->params);
  analyzer.BindLaunch(launch);
  BlockNames names(launch->body, block);
  // An assumption may say how many blocks there are; one about sizes holds for a block behind them.
  bool assumes = ir::HasStmt(launch->body, [&](const Stmt& s) {
    const auto* assume = s.as<ir::AssumeNode>();
    return assume != nullptr && names.In(assume->condition);
  });
  // Each block of a pair waits for the other one in the loop.
  bool apart =
      ir::HasStmt(launch->body, [&](const Stmt& s) { return Divides(s, plain.loop, names); });
  bool whole = rows && *rows % 2 == 0;
  if (assumes || apart || (!whole && !StoresEndWithGrid(launch->body, block, extent, &analyzer)))
    return {};
  std::vector<const ir::CopyNode*> loads;
  std::copy_if(plain.loads.begin(), plain.loads.end(), std::back_inserter(loads),
               [&](const ir::CopyNode* load) { return !names.In(load->src); });
  bool of_b = std::none_of(loads.begin(), loads.end(), [&](const ir::CopyNode* load) {
    return LoadsAlong(plain, load, ir::GemmDim::kM);
  });
  return of_b ? loads : std::vector<const ir::CopyNode*>{};
}

int64_t RowsThatShare(const ir::Func& func, const ir::KernelLaunchNode* launch,
                      const PlainGemm& plain) {
  auto rows = launch->grid.size() == 2 ? ir::AsInt(launch->grid[kRowAxis]) : std::nullopt;
  return !rows || func->attrs.count(ir::kOwnLoads) != 0 || LoadsToShare(func, launch, plain).empty()
             ? 0
             : *rows;
}

Stmt ForBothBlocks(const Stmt& s, const std::vector<const ir::CopyNode*>& loads) {
  return LoadSharer(loads).MutateStmt(s);
}

ir::Func ShareLoads(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(PairMaker(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
