#include "tiling/load_early.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <vector>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/copy_tma.h"
#include "schedule/shared_bytes.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Stmt;
using ir::StmtKind;

namespace {

// Returns whether a load may be issued before the statement.
bool CanPass(const ir::CopyNode* load, const Stmt& s) {
  bool free = s->kind == StmtKind::kCopy || s->kind == StmtKind::kGemm ||
              s->kind == StmtKind::kFill || s->kind == StmtKind::kReduce ||
              s->kind == StmtKind::kParallelFor;
  if (const auto* alloc = s.as<ir::AllocNode>()) {
    free = ir::CountEffects(ir::ffi::GetRef<Stmt>(load), alloc->buffer) == 0;
  }
  ir::WalkEffects(s, [&](const ir::Effect& effect) {
    free = free && !effect.buffer.same_as(load->dst->buffer) &&
           effect.kind != ir::EffectKind::kAddress &&
           !(effect.Writes() && ir::MayOverlap(load->src->buffer, effect.buffer));
  });
  return free && !ir::HasExpr(s, [](const ir::Expr& e) {
           const auto* call = e.as<ir::CallNode>();
           return call != nullptr && (call->intrinsic == nullptr || !call->intrinsic->pure);
         });
}

bool UsesOneOf(const Stmt& s, const std::vector<ir::Buffer>& tiles) {
  return std::any_of(tiles.begin(), tiles.end(),
                     [&](const ir::Buffer& tile) { return ir::CountEffects(s, tile) > 0; });
}

class EarlyLoader : public ir::StmtMutator {
 public:
  explicit EarlyLoader(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    auto blocks = [&](int64_t bytes) { return BlocksPerSm(op, target_, bytes); };
    int64_t bytes = schedule::SharedBytes(op);
    bool fits = bytes <= target_->shared_memory_per_block && blocks(bytes) == blocks(0);
    return fits ? StmtMutator::Rewrite(op) : ir::ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override { return ir::ffi::GetRef<Stmt>(op); }
  Stmt Rewrite(const ir::WhileNode* op) override { return ir::ffi::GetRef<Stmt>(op); }
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      Stmt next = MutateStmt(s);
      const auto* copy = next.as<ir::CopyNode>();
      bool loads = copy != nullptr && op::IsTmaLoad(copy);
      stmts.insert(loads ? PlaceFor(copy, &stmts) : stmts.end(), next);
    }
    return ir::Seq(stmts, op->span);
  }

 private:
  // Returns the place behind the first use of earlier loads to which the load can move; the end if
  // there is none.
  static std::vector<Stmt>::iterator PlaceFor(const ir::CopyNode* load, std::vector<Stmt>* stmts) {
    auto first = stmts->end();
    while (first != stmts->begin() && CanPass(load, *(first - 1))) --first;
    std::vector<ir::Buffer> loaded;
    for (auto s = stmts->begin(); s != stmts->end(); ++s) {
      const auto* copy = s->as<ir::CopyNode>();
      if (copy != nullptr && op::IsTmaLoad(copy)) loaded.push_back(copy->dst->buffer);
      bool waits = (copy == nullptr || !op::IsTmaLoad(copy)) && UsesOneOf(*s, loaded);
      if (waits && s + 1 >= first) return s + 1;
    }
    return stmts->end();
  }

  const Target& target_;
};

}  // namespace

ir::Func LoadEarly(const ir::Func& func, const Target& target) {
  if (!target->has_tma) return func;
  return func.WithBody(EarlyLoader(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
