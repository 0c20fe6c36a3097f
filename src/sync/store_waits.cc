#include "sync/store_waits.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "op/copy_tmem.h"
#include "op/tmem.h"
#include "target/warp.h"

namespace tilelang::sync {

using ir::Stmt;

namespace {

// Registers of stores that are not waited for cannot take what a load brings.
constexpr int64_t kMostInFlight = 128;

const ir::CopyNode* AsTmemLdSt(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  if (copy == nullptr || !copy->plan.defined()) return nullptr;
  return op::InstructionOf(copy)->engine() == op::Engine::kTmemLdSt ? copy : nullptr;
}

bool IsStore(const ir::CopyNode* copy) { return copy->dst->buffer.IsTmem(); }

// Works on registers alone.
bool IsQuiet(const Stmt& s) {
  bool kind = s->kind == ir::StmtKind::kParallelFor || s->kind == ir::StmtKind::kFill ||
              s->kind == ir::StmtKind::kBind || s->kind == ir::StmtKind::kStore ||
              s->kind == ir::StmtKind::kAlloc;
  if (!kind) return false;
  std::vector<ir::Effect> effects = ir::EffectsOf(s);
  return std::all_of(effects.begin(), effects.end(), [](const ir::Effect& effect) {
    return effect.buffer.IsFragment() || effect.buffer.IsLocal();
  });
}

// Whether a copy may touch what a store has written, as far as their regions tell.
bool MayTouch(const ir::CopyNode* copy, const ir::CopyNode* store) {
  const ir::Region& tile = IsStore(copy) ? copy->dst : copy->src;
  if (!tile->buffer.same_as(store->dst->buffer)) {
    return tile->buffer->attrs.count(op::kColumnsOf) != 0 ||
           store->dst->buffer->attrs.count(op::kColumnsOf) != 0;
  }
  auto mins = ir::AsInts(tile->mins);
  auto extents = ir::AsInts(tile->extents);
  auto store_mins = ir::AsInts(store->dst->mins);
  auto store_extents = ir::AsInts(store->dst->extents);
  if (!mins || !store_mins || !extents || !store_extents) return true;
  for (size_t d = 0; d < mins->size(); ++d) {
    if ((*mins)[d] + (*extents)[d] <= (*store_mins)[d] ||
        (*store_mins)[d] + (*store_extents)[d] <= (*mins)[d]) {
      return false;
    }
  }
  return true;
}

// Whether warps of another warpgroup may store what `earlier` has stored: those of one have their
// lanes for good, and their stores come one after the other.
bool MayChangeWarps(const ir::CopyNode* earlier, const ir::CopyNode* later) {
  bool keeps = earlier->annotations.count(ir::kRowsOfWarpgroups) != 0 &&
               later->annotations.count(ir::kRowsOfWarpgroups) != 0;
  return !keeps && op::TilePlanOf(later)->threads.count > kWarpgroup;
}

// 32-bit registers of a thread that the copy moves.
int64_t RegistersOf(const ir::CopyNode* copy) {
  const auto* plan = static_cast<const op::TmemLdStPlanNode*>(op::TilePlanOf(copy));
  int64_t count = 0;
  for (size_t i = 0; i < plan->copy->instructions.size(); ++i) {
    count += plan->copy->Instruction(i)->num_regs;
  }
  return count;
}

// Of the copies of one run, in order.
void FindWaits(const std::vector<const ir::CopyNode*>& run, const std::vector<size_t>& at,
               std::vector<bool>* waits) {
  int64_t in_flight = 0;  // registers that stores may still read
  for (size_t i = 0; i < run.size(); ++i) {
    if (!IsStore(run[i])) continue;
    in_flight += RegistersOf(run[i]);
    auto touched = [&](const ir::CopyNode* copy) {
      return std::any_of(run.begin(), run.begin() + static_cast<ptrdiff_t>(i) + 1,
                         [&](const auto* op) { return IsStore(op) && MayTouch(copy, op); });
    };
    size_t next = i + 1;
    bool wait = false;
    for (; next < run.size() && !IsStore(run[next]); ++next) {
      wait = wait || touched(run[next]) || in_flight + RegistersOf(run[next]) > kMostInFlight;
    }
    bool last = next == run.size();
    (*waits)[at[i]] = wait || last || (MayChangeWarps(run[i], run[next]) && touched(run[next]));
    if ((*waits)[at[i]]) in_flight = 0;
  }
}

}  // namespace

std::vector<bool> FindStoreWaits(const ir::Array<Stmt>& stmts) {
  std::vector<bool> waits(stmts.size(), true);
  std::vector<const ir::CopyNode*> run;
  std::vector<size_t> at;
  auto end = [&] {
    FindWaits(run, at, &waits);
    run.clear();
    at.clear();
  };
  for (size_t i = 0; i < stmts.size(); ++i) {
    const ir::CopyNode* copy = AsTmemLdSt(stmts[i]);
    bool joins = copy != nullptr &&
                 (run.empty() || op::TilePlanOf(copy)->threads == op::TilePlanOf(run[0])->threads);
    if (!joins && (copy != nullptr || !IsQuiet(stmts[i]))) end();
    if (copy == nullptr) continue;
    run.push_back(copy);
    at.push_back(i);
  }
  end();
  return waits;
}

}  // namespace tilelang::sync
