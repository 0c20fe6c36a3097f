#include "lower/stage_loads.h"

#include <tvm/ffi/cast.h>

#include <string>
#include <vector>

#include "analysis/kernel_scope.h"
#include "analysis/loop_box.h"
#include "analysis/scoped_mutator.h"
#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "op/copy_tma.h"
#include "schedule/channel.h"
#include "schedule/shared_bytes.h"

namespace tilelang::lower {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

class LoadStager : public analysis::ScopedMutator {
 public:
  LoadStager(const ir::Func& func, const Target& target) : target_(target) {
    analyzer_.BindParams(func->params);
  }

  using ScopedMutator::Mutate;
  using ScopedMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    launch_ = op;
    threads_ = analysis::ThreadsOf(op);
    bytes_ = schedule::SharedBytes(op) + schedule::kBytesBesideTiles;
    return ScopedMutator::Rewrite(op);
  }

  Stmt Rewrite(const ir::ForNode* op) override {
    bool outer = ahead_;
    bool gemms =
        ir::HasStmt(op->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; });
    ahead_ = gemms && schedule::StagesOf(op) > 1;
    Stmt result = ScopedMutator::Rewrite(op);
    ahead_ = outer;
    return result;
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    bool outer = ahead_;
    ahead_ = false;  // not in each iteration
    Stmt result = ScopedMutator::Rewrite(op);
    ahead_ = outer;
    return result;
  }

  Stmt Rewrite(const ir::ParallelForNode* op) override {
    if (!ahead_ || op->vars.size() != 2) return ir::ffi::GetRef<Stmt>(op);
    loop_ = op;
    staged_.clear();
    names_ = {};
    Stmt loop = ScopedMutator::Rewrite(op);
    loop_ = nullptr;
    std::vector<Stmt> stmts;
    for (const Staged& staged : staged_) {
      stmts.push_back(ir::Alloc(staged.tile, op->span));
      stmts.push_back(staged.copy);
    }
    stmts.push_back(loop);
    return staged_.empty() ? loop : Stmt(ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end())));
  }

  Stmt Rewrite(const ir::BindNode* op) override {
    if (loop_ != nullptr) names_.Set(op->var, ir::Substitute(op->value, names_));
    return ScopedMutator::Rewrite(op);
  }

  Expr Rewrite(const ir::LoadNode* op) override {
    Expr self = ScopedMutator::Rewrite(op);
    if (loop_ == nullptr || !op->buffer.IsGlobal() || WritesTensor(op->buffer)) return self;
    ir::Array<Expr> indices;
    for (const Expr& index : op->indices) indices.push_back(ir::Substitute(index, names_));
    auto box = analysis::BoxOf(op->buffer, indices, loop_, &analyzer_);
    if (!box || box->vars != std::vector<size_t>{0, 1}) return self;
    const Buffer* tile = TileOf(box->region, op->span);
    return tile == nullptr ? self
                           : Expr(ir::Load(*tile, {loop_->vars[0], loop_->vars[1]}, op->span));
  }

 private:
  // A tile in shared memory, and the copy that loads it.
  struct Staged {
    Buffer tile;
    Stmt copy;
  };

  bool WritesTensor(const Buffer& tensor) const {
    bool writes = false;
    ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
      writes |= effect.Writes() && ir::MayOverlap(effect.buffer, tensor);
    });
    return writes;
  }

  // Returns the tile that holds the box; null if it cannot be staged.
  const Buffer* TileOf(const ir::Region& box, const ir::Span& span) {
    for (const Staged& staged : staged_) {
      if (IsSame(staged.copy.as<ir::CopyNode>()->src, box)) return &staged.tile;
    }
    if (!ir::AsInts(loop_->extents)) return nullptr;
    Buffer tile(ir::String(std::string(box->buffer->name) + "_tile"), box->buffer->dtype,
                loop_->extents, {}, "shared.dyn", {}, span);
    int64_t bytes = schedule::TileBytes(tile);
    Stmt copy = ir::Copy(box, ir::Region::Whole(tile), span);
    op::Context ctx{target_, {0, threads_.count}, threads_.linear, threads_.count,
                    nullptr, &analyzer_};
    ctx.pipelined = true;
    if (bytes_ + bytes > target_->shared_memory_per_block ||
        !op::TmaLoad()->Obstacle(copy.as<ir::CopyNode>(), &ctx).empty()) {
      return nullptr;
    }
    bytes_ += bytes;
    Remark(loop_->span, "copy",
           "T.Parallel: TMA loads the tile of " + std::string(box->buffer->name) +
               " to shared memory ahead, because each thread reads a row of it. The pass option "
               "tl.disable_load_staging turns this off");
    staged_.push_back({tile, copy});
    return &staged_.back().tile;
  }
  static bool IsSame(const ir::Region& a, const ir::Region& b) {
    bool same = a->buffer.same_as(b->buffer);
    for (size_t d = 0; same && d < a->mins.size(); ++d) {
      same = arith::SameStructure(a->mins[d], b->mins[d]);
    }
    return same;
  }

  Target target_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  analysis::LaunchThreads threads_{Expr(), 0};
  int64_t bytes_ = 0;   // of shared memory that the launch takes
  bool ahead_ = false;  // in each iteration of a pipelined loop with gemms
  const ir::ParallelForNode* loop_ = nullptr;
  ir::Map<ir::Var, Expr> names_;  // of the loop
  std::vector<Staged> staged_;    // for the loop
};

}  // namespace

ir::Func StageLoads(const ir::Func& func, const Target& target) {
  if (target->tmem_columns == 0 || !target->has_tma) return func;
  return func.WithBody(LoadStager(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::lower
