#include "epilogue/divide_stores.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/aliases.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "layout/fragment.h"
#include "op/copy.h"
#include "op/copy_tma.h"
#include "op/thread_sync.h"
#include "target/warp.h"

namespace tilelang::epilogue {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using layout::Coord;

namespace {

// The dimension along which warpgroup after warpgroup has an equal part.
std::optional<size_t> DimensionOfWarpgroups(const layout::Fragment& fragment,
                                            const op::ThreadRange& threads) {
  Coord extents = fragment->Extents();
  int64_t groups = threads.count / kWarpgroup;
  if (fragment->Replicas() != 1) return std::nullopt;
  for (size_t d = 0; d < extents.size(); ++d) {
    bool divides = extents[d] % groups == 0;
    int64_t part = extents[d] / groups;
    for (int64_t i = 0; divides && i < fragment->Size(); ++i) {
      Coord at = layout::Delinearize(extents, i);
      int64_t thread = fragment->Forward(at).first - threads.begin;
      divides = thread / kWarpgroup == at[d] / part;
    }
    if (divides) return d;
  }
  return std::nullopt;
}

// The fragment that fills a tile, and which of its dimensions each one of the tile follows.
struct Filler {
  Buffer fragment;
  std::vector<std::optional<size_t>> dims;
};

// Returns for each index of a store the dimension of the load that it follows: it is the same
// index, or a block of it that fills the dimension.
std::vector<std::optional<size_t>> Followed(const ir::StoreNode* store, const ir::LoadNode* load) {
  std::vector<std::optional<size_t>> dims;
  for (size_t d = 0; d < store->indices.size(); ++d) {
    Expr index = store->indices[d];
    int64_t block = 1;
    const auto* quotient = index.as<ir::BinaryNode>();
    if (quotient != nullptr && quotient->Op() == ir::BinaryOp::kFloorDiv) {
      block = ir::AsInt(quotient->b).value_or(0);
      index = quotient->a;
    }
    auto same = std::find_if(load->indices.begin(), load->indices.end(),
                             [&](const Expr& other) { return index.same_as(other); });
    auto dim = static_cast<size_t>(same - load->indices.begin());
    bool fills = same != load->indices.end() && *ir::AsInt(load->buffer->shape[dim]) ==
                                                    block * *ir::AsInt(store->buffer->shape[d]);
    dims.push_back(fills ? std::optional(dim) : std::nullopt);
  }
  return dims;
}

// Returns how a statement fills the tile that it writes, one element of a fragment for each element
// of the tile; nullopt if it does not, or does not fill all of it.
std::optional<Filler> FillerOf(const Stmt& s, const Buffer& tile) {
  if (const auto* copy = s.as<ir::CopyNode>()) {
    const Buffer& source = copy->src->buffer;
    bool same = source.IsFragment() && ir::AsInts(source->shape) == ir::AsInts(tile->shape);
    std::vector<std::optional<size_t>> dims;
    for (size_t d = 0; d < tile->shape.size(); ++d) dims.emplace_back(d);
    return same ? std::optional(Filler{source, dims}) : std::nullopt;
  }
  std::optional<Filler> found;
  ir::WalkStmts(s, [&](const Stmt& inner) {
    const auto* store = inner.as<ir::StoreNode>();
    if (store == nullptr || !store->buffer.same_as(tile)) return true;
    found = std::nullopt;
    ir::WalkExprs(store->value, [&](const Expr& e) {
      const auto* load = e.as<ir::LoadNode>();
      if (load == nullptr || !load->buffer.IsFragment()) return true;
      bool more = !found || load->indices.size() > found->fragment->shape.size();
      if (more) found = Filler{load->buffer, Followed(store, load)};
      return true;
    });
    return true;
  });
  return found;
}

class Divider : public analysis::ScopedMutator {
 public:
  Divider(const ir::Func& func, const ir::KernelLaunchNode* launch, const Target& target)
      : threads_(analysis::ThreadsOf(launch)),
        layouts_(launch->attrs["layout_map"].cast<ir::Map<Buffer, ir::Any>>()),
        ctx_{target, {0, threads_.count}, threads_.linear, threads_.count, &layouts_, &analyzer_} {
    analyzer_.BindParams(func->params);
    analyzer_.BindLaunch(launch);
    FindFillers(launch->body);
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    bool stores = op::InstructionOf(op) == op::TmaStore();
    std::vector<Stmt> parts = stores ? Parts(op) : std::vector<Stmt>();
    if (parts.empty()) return ffi::GetRef<Stmt>(op);
    return Branches(parts, op::TilePlanOf(op)->threads, op->span);
  }

 private:
  // One statement for each warpgroup, in branches.
  Stmt Branches(const std::vector<Stmt>& parts, const op::ThreadRange& threads,
                const ir::Span& span) const {
    Stmt result = parts.back();
    for (size_t i = parts.size() - 1; i-- > 0;) {
      int64_t end = threads.begin + static_cast<int64_t>(i + 1) * kWarpgroup;
      result = ir::If(threads_.linear < ir::Const(ir::dtypes::kInt32, end), parts[i], result, span);
    }
    return result;
  }

  // Finds the statement that fills each tile, except for TMA loads.
  void FindFillers(const Stmt& body) {
    ir::WalkEffects(body, [&](const ir::Effect& effect) {
      writes_[ir::MemoryOf(effect.buffer)] += effect.Writes() ? 1 : 0;
    });
    ir::WalkStmts(body, [&](const Stmt& s) {
      bool filling = s->kind == ir::StmtKind::kCopy || s->kind == ir::StmtKind::kParallelFor;
      if (!filling && s->kind != ir::StmtKind::kStore) return true;
      const auto* copy = s.as<ir::CopyNode>();
      if (copy != nullptr && op::InstructionOf(copy) == op::TmaLoad()) return false;
      for (const ir::Effect& effect : ir::EffectsOf(s)) {
        if (!effect.Writes() || !effect.buffer.IsShared()) continue;
        fillers_[effect.buffer.get()].push_back(FillerOf(s, effect.buffer));
      }
      return false;
    });
  }

  // Returns whether a repeated store needs no wait for stores of other warpgroups: it begins at
  // multiples of its extent, so each execution writes other elements. A thread waits for its own
  // stores anyway.
  bool KeepsApart(const ir::CopyNode* store, size_t dim) {
    if (!store->options->waits_for_writes) return true;
    int64_t extent = *ir::AsInt(store->dst->extents[dim]);
    return writes_[ir::MemoryOf(store->dst->buffer)] == 1 &&
           analyzer_.Divides(store->dst->mins[dim], extent);
  }

  std::optional<size_t> Dimension(const Buffer& tile, const op::ThreadRange& threads) const {
    auto fillers = fillers_.find(tile.get());
    if (fillers == fillers_.end()) return std::nullopt;
    std::optional<size_t> result;
    for (const std::optional<Filler>& filler : fillers->second) {
      auto layout = filler ? layouts_.GetFragment(filler->fragment) : std::nullopt;
      auto own = layout ? DimensionOfWarpgroups(*layout, threads) : std::nullopt;
      if (!own) return std::nullopt;
      auto at = std::find(filler->dims.begin(), filler->dims.end(), *own);
      if (at == filler->dims.end()) return std::nullopt;
      auto dim = static_cast<size_t>(at - filler->dims.begin());
      int64_t groups = threads.count / kWarpgroup;
      if (*ir::AsInt(tile->shape[dim]) % groups != 0) return std::nullopt;
      if (result.value_or(dim) != dim) return std::nullopt;
      result = dim;
    }
    return result;
  }

  // The part of each warpgroup; empty: the store stays whole.
  std::vector<Stmt> Parts(const ir::CopyNode* store) {
    op::ThreadRange threads = op::TilePlanOf(store)->threads;
    auto dim = op::IsWarpgroups(threads) ? Dimension(store->src->buffer, threads) : std::nullopt;
    if (!dim) return {};
    op::MovingDims from = op::Moving(store->src);
    op::MovingDims to = op::Moving(store->dst);
    auto at = std::find(from.dims.begin(), from.dims.end(), *dim);
    auto extent = ir::AsInt(store->src->extents[*dim]);
    bool whole = ir::AsInt(store->src->mins[*dim]) == 0 &&
                 extent == ir::AsInt(store->src->buffer->shape[*dim]);
    if (!whole || at == from.dims.end()) return {};
    size_t target = to.dims[static_cast<size_t>(at - from.dims.begin())];
    if (!KeepsApart(store, target)) return {};
    int64_t groups = threads.count / kWarpgroup;
    std::vector<Stmt> parts;
    for (int64_t i = 0; i < groups; ++i) {
      ctx_.threads = {threads.begin + i * kWarpgroup, kWarpgroup};
      Stmt part = ir::Copy(store, Slice(store->src, *dim, i, *extent / groups),
                           Slice(store->dst, target, i, *extent / groups));
      op::PlanResult result = op::TmaStore()->MakePlan(part.as<ir::CopyNode>(), &ctx_);
      if (!result.plan.defined()) return {};
      parts.push_back(ir::WithPlan(part, result.plan));
    }
    return parts;
  }
  static ir::Region Slice(const ir::Region& region, size_t dim, int64_t part, int64_t extent) {
    auto mins = region->mins;
    auto extents = region->extents;
    const Expr& min = mins[dim];
    mins.Set(dim, min + ir::Const(min.dtype(), part * extent));
    extents.Set(dim, ir::Const(extents[dim].dtype(), extent));
    return ir::Region(region->buffer, mins, extents);
  }

  analysis::LaunchThreads threads_;
  op::LayoutMap layouts_;
  op::Context ctx_;
  std::unordered_map<const ffi::Object*, std::vector<std::optional<Filler>>> fillers_;
  std::unordered_map<const ffi::Object*, int> writes_;
};

class StoreDivider : public ir::StmtMutator {
 public:
  StoreDivider(const ir::Func& func, const Target& target) : func_(func), target_(target) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    return ir::WithBody(op, Divider(func_, op, target_).MutateStmt(op->body));
  }

 private:
  const ir::Func& func_;
  Target target_;
};

}  // namespace

ir::Func DivideStores(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma) return func;
  return func.WithBody(StoreDivider(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::epilogue
