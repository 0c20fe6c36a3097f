#include "epilogue/stage_results.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "analysis/kernel_scope.h"
#include "analysis/scoped_mutator.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "memory/plan_shared_memory.h"
#include "op/copy_tma.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"
#include "schedule/tile_loop.h"
#include "tiling/loop_stages.h"
#include "tiling/plain_gemm.h"
#include "tiling/residency.h"

namespace tilelang::epilogue {

using ir::Buffer;
using ir::Stmt;

namespace {

// The tiles that gemms of pipelined loops, and those outside of loops, add up in.
std::unordered_set<const ir::ffi::Object*> AccumulatorsOf(const Stmt& body) {
  std::unordered_set<const ir::ffi::Object*> found;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    const auto* gemm = s.as<ir::GemmNode>();
    if (gemm != nullptr) found.insert(gemm->result()->buffer.get());
    return loop == nullptr || loop->annotations.count(schedule::kStaticTiles) != 0 ||
           schedule::StagesOf(loop) >= 2;
  });
  return found;
}

// Adds the fragments that threads fill with elements of these: sums over the steps of a loop, and
// results of another type.
void AddFilledFrom(const Stmt& body, std::unordered_set<const ir::ffi::Object*>* fragments) {
  size_t before;
  do {
    before = fragments->size();
    ir::WalkStmts(body, [&](const Stmt& s) {
      bool fills = s->kind == ir::StmtKind::kParallelFor || s->kind == ir::StmtKind::kCopy;
      if (!fills) return true;
      std::vector<ir::Effect> effects = ir::EffectsOf(s);
      bool reads = std::any_of(effects.begin(), effects.end(), [&](const ir::Effect& effect) {
        return effect.Reads() && fragments->count(effect.buffer.get()) != 0;
      });
      for (const ir::Effect& effect : effects) {
        bool filled = reads && effect.Writes() && effect.buffer.IsFragment();
        if (filled && effect.buffer->shape.size() > 1) fragments->insert(effect.buffer.get());
      }
      return true;
    });
  } while (fragments->size() > before);
}

// Barriers of the program and gemms that it waits for: it says itself who does what when.
bool HasOwnRoles(const ir::KernelLaunchNode* launch) {
  bool own = false;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    const auto* gemm = s.as<ir::GemmNode>();
    own |= alloc != nullptr && alloc->buffer.IsBarrier();
    own |= gemm != nullptr && (!op::WaitsItself(gemm) || op::GroupsInFlight(gemm) > 0);
    return !own;
  });
  return own;
}

// Returns whether threads hold neighbouring elements of a column of the result, and would store
// them one by one.
bool HoldsColumns(const ir::KernelLaunchNode* launch) {
  return ir::HasStmt(launch->body, [](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    return gemm != nullptr && op::PrefersTransposed(gemm);
  });
}

class ResultStager : public analysis::ScopedMutator {
 public:
  ResultStager(const ir::Func& func, const Target& target) : target_(target) {
    analyzer_.BindParams(func->params);
  }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    threads_ = analysis::ThreadsOf(op);
    results_ = AccumulatorsOf(op->body);
    AddFilledFrom(op->body, &results_);
    int64_t blocks = 1;
    for (const ir::Expr& extent : op->grid) blocks *= ir::AsInt(extent).value_or(target_->sm_count);
    bool few = 2 * blocks < target_->sm_count && !target_->has_tcgen05 && !HoldsColumns(op);
    if (results_.empty() || HasOwnRoles(op) || few) {
      return ir::ffi::GetRef<Stmt>(op);
    }
    return ScopedMutator::Rewrite(op);
  }
  // Blocks that compute several tiles load the next one's operands meanwhile.
  Stmt Rewrite(const ir::ForNode* op) override {
    if (op->annotations.count(schedule::kStaticTiles) == 0) return ir::ffi::GetRef<Stmt>(op);
    in_tiles_ = true;
    Stmt loop = ScopedMutator::Rewrite(op);
    in_tiles_ = false;
    return loop;
  }
  Stmt Rewrite(const ir::WhileNode* op) override { return ir::ffi::GetRef<Stmt>(op); }
  Stmt Rewrite(const ir::CopyNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    if (!IsResult(op)) return self;
    const Buffer& c = op->src->buffer;
    bool beside = in_tiles_ || PrecedesGemm(op);
    ir::Map<ir::String, ir::Any> attrs;
    if (!beside) attrs.Set(memory::kOverlays, true);
    Buffer tile(ir::String(std::string(c->name) + "_tile"), op->dst->buffer->dtype,
                op->src->extents, {}, "shared.dyn", attrs, op->span);
    ir::Region whole = ir::Region::Whole(tile);
    ir::Copy store(whole, op->dst, op->span);
    op::Context ctx{target_,         analysis::ActiveThreads(threads_, &analyzer_),
                    threads_.linear, threads_.count,
                    nullptr,         &analyzer_};
    bool all = ctx.threads.begin == 0 && ctx.threads.count == threads_.count;
    if (!all || !op::TmaStore()->Obstacle(store.get(), &ctx).empty() || !Fits(op, beside))
      return self;
    RemarkCopy(op, std::string("is staged in shared memory, ") +
                       (beside ? "beside" : "in the bytes of") +
                       " the operands, because TMA then stores whole rows. The pass option "
                       "tl.disable_result_staging turns this off");
    return ir::Seq({ir::Alloc(tile, op->span), ir::Copy(op->src, whole, op->span), store},
                   op->span);
  }

 private:
  bool IsResult(const ir::CopyNode* op) const {
    const Buffer& to = op->dst->buffer;
    bool result = results_.count(op->src->buffer.get()) != 0 && op->src.IsWhole();
    bool stored = to.IsGlobal() && to->dtype.bits == tiling::kResultBits && to->dtype.lanes == 1;
    return op->IsPlain() && result && stored &&
           ir::CountEffects(ir::ffi::GetRef<Stmt>(launch_), to) == 1;
  }
  // Returns whether a gemm follows, whose operands may be under way.
  bool PrecedesGemm(const ir::CopyNode* op) const {
    bool behind = false, found = false;
    ir::WalkStmts(launch_->body, [&](const Stmt& s) {
      behind |= s.get() == op;
      found |= behind && s->kind == ir::StmtKind::kGemm;
      return !found;
    });
    return found;
  }
  // Returns whether an SM holds as many blocks as without the tile, which has bytes of its own if
  // it lies beside the operands.
  bool Fits(const ir::CopyNode* op, bool beside) const {
    int64_t tile = ir::Bytes(op->dst->buffer->dtype);
    for (const ir::Expr& extent : op->src->extents) tile *= *ir::AsInt(extent);
    int64_t operands = schedule::SharedBytes(launch_);
    if (!beside && tile <= operands) return true;
    int64_t bytes = beside ? tile + operands + tiling::kBlockBytes : tile;
    auto blocks = [&](int64_t each) { return tiling::BlocksPerSm(launch_, target_, each); };
    return bytes <= target_->shared_memory_per_block && blocks(bytes) == blocks(operands);
  }

  Target target_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  analysis::LaunchThreads threads_{ir::Expr(), 0};
  std::unordered_set<const ir::ffi::Object*> results_;
  bool in_tiles_ = false;  // in a loop over the tiles of a block
};

}  // namespace

ir::Func StageResults(const ir::Func& func, const Target& target) {
  if (!target->has_tma || !(target->has_wgmma || target->has_tcgen05)) return func;
  return func.WithBody(ResultStager(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::epilogue
