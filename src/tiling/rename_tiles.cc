#include "tiling/rename_tiles.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "schedule/shared_bytes.h"
#include "tiling/allocations.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

// Rewrites a loop that stores elements under a condition as one that stores each: the new value or
// the old one. Returns other statements as they are.
Stmt StoringAll(const Stmt& s) {
  const auto* loop = s.as<ir::ParallelForNode>();
  const auto* branch = loop != nullptr ? loop->body.as<ir::IfNode>() : nullptr;
  if (branch == nullptr || branch->else_case.defined()) return s;
  const auto* store = branch->then_case.as<ir::StoreNode>();
  if (store == nullptr) return s;
  Expr old = ir::Load(store->buffer, store->indices, store->span);
  Expr value = ir::Select(branch->condition, store->value, old, store->span);
  Stmt all = ir::Store(store->buffer, store->indices, value, store->span);
  return ir::ParallelFor(loop->vars, loop->extents, all, loop->annotations, loop->span);
}

// Writes values of one tile to another.
class TargetChanger : public ir::StmtMutator {
 public:
  TargetChanger(const Buffer& from, const Buffer& to) : from_(from), to_(to) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::StoreNode* op) override {
    if (!op->buffer.same_as(from_)) return ir::ffi::GetRef<Stmt>(op);
    return ir::Store(to_, op->indices, op->value, op->span);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (!op->dst->buffer.same_as(from_)) return ir::ffi::GetRef<Stmt>(op);
    return ir::Copy(op, op->src, ir::Region(to_, op->dst->mins, op->dst->extents));
  }

 private:
  Buffer from_;
  Buffer to_;
};

// Returns whether threads overwrite all of a tile: by a parallel loop, or from a fragment.
bool IsByThreads(const Stmt& s, const Buffer& tile) {
  const auto* copy = s.as<ir::CopyNode>();
  bool by_threads = copy != nullptr ? copy->src->buffer.IsFragment() && copy->IsPlain()
                                    : s->kind == ir::StmtKind::kParallelFor;
  return by_threads && ir::OverwritesAll(s, tile);
}

class TileRenamer : public ir::StmtMutator {
 public:
  explicit TileRenamer(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    if (op->attrs.count("layout_map") != 0 || !LeavesThreadsOpen(op)) {
      return ir::ffi::GetRef<Stmt>(op);
    }
    launch_ = op;
    room_ =
        target_->shared_memory_per_block - schedule::kBytesBesideTiles - schedule::SharedBytes(op);
    added_.clear();
    Stmt body = MutateStmt(op->body);
    launch_ = nullptr;
    return added_.empty() ? ir::ffi::GetRef<Stmt>(op)
                          : Stmt(ir::WithBody(op, WithAllocations(added_, body)));
  }

  Stmt Rewrite(const ir::ForNode* given) override {
    Stmt self = StmtMutator::Rewrite(given);
    const auto* op = self.as<ir::ForNode>();
    const auto* body = op->body.as<ir::SeqNode>();
    if (launch_ == nullptr || body == nullptr) return self;
    std::vector<Stmt> stmts(body->stmts.begin(), body->stmts.end());
    bool renames = false;
    for (const Stmt& s : body->stmts) {
      const auto* load = s.as<ir::CopyNode>();
      if (load != nullptr) renames = Rename(load, op, &stmts) || renames;
    }
    if (!renames) return self;
    Stmt renamed = ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), body->span);
    return ir::For(op->var, op->min, op->extent, op->Kind(), renamed, op->annotations, op->span);
  }

 private:
  // Renames the values that overwrite the loaded tile in the statements of the loop. Returns false
  // if threads overwrite none, or if the tile has other uses.
  bool Rename(const ir::CopyNode* load, const ir::ForNode* loop, std::vector<Stmt>* stmts) {
    const Buffer& tile = load->dst->buffer;
    bool whole = load->src->buffer.IsGlobal() && tile.IsShared() && load->dst.IsWhole();
    int64_t bytes = schedule::TileBytes(tile);
    if (!whole || bytes > room_) return false;
    bool own = ir::OverwritesFirst(loop->body, tile) &&
               ir::CountEffects(loop->body, tile) == ir::CountEffects(launch_->body, tile);
    if (!own) return false;
    auto at = std::find_if(stmts->begin(), stmts->end(),
                           [&](const Stmt& s) { return s.get() != load && ir::Writes(s, tile); });
    if (at == stmts->end() || !IsMultiplied(tile, at, stmts->end())) return false;
    Stmt overwrites = StoringAll(*at);
    if (!IsByThreads(overwrites, tile)) return false;
    Buffer next(std::string(tile->name) + "_1", tile->dtype, tile->shape, tile->strides,
                tile->scope, tile->attrs, tile->span);
    *at = TargetChanger(tile, next).MutateStmt(overwrites);
    for (auto after = at + 1; after != stmts->end(); ++after) {
      *after = ir::ReplaceBuffers(*after, {{tile, next}});
    }
    added_.push_back(next);
    room_ -= bytes;
    Remark((*at).span(), "pipeline",
           "the values that overwrite \"" + std::string(tile->name) +
               "\" have a tile of their own, so that this one can be loaded meanwhile. The pass "
               "option tl.disable_tile_renaming turns this off");
    return true;
  }

  // Returns whether a gemm of these statements reads the tile, and no copy loads it again.
  static bool IsMultiplied(const Buffer& tile, std::vector<Stmt>::const_iterator begin,
                           std::vector<Stmt>::const_iterator end) {
    bool loads = std::any_of(begin, end, [&](const Stmt& s) {
      const auto* copy = s.as<ir::CopyNode>();
      return copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.same_as(tile);
    });
    return !loads && std::any_of(begin, end, [&](const Stmt& s) {
      const auto* gemm = s.as<ir::GemmNode>();
      if (gemm == nullptr) return false;
      auto inputs = gemm->Inputs();
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](const auto* input) { return input->buffer().same_as(tile); });
    });
  }

  Target target_;
  const ir::KernelLaunchNode* launch_ = nullptr;
  int64_t room_ = 0;  // bytes of shared memory
  std::vector<Buffer> added_;
};

}  // namespace

ir::Func RenameTiles(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 && !target->has_wgmma) return func;
  return func.WithBody(TileRenamer(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
