#include "lower/mask_results.h"

#include <tvm/ffi/cast.h>

#include <cmath>
#include <optional>
#include <vector>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/tile_op.h"
#include "ir/visitor.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::lower {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

// A choice between 0 and infinities, one of each at least: what is 0 alone is cleared.
bool IsMask(const Expr& e) {
  const auto* choice = e.as<ir::SelectNode>();
  if (choice == nullptr) return false;
  auto fits = [](const Expr& side) {
    const auto* number = side.as<ir::FloatImmNode>();
    return number != nullptr ? number->value == 0 || std::isinf(number->value) : IsMask(side);
  };
  return fits(choice->true_value) && fits(choice->false_value);
}

// The store of a loop that gives every element of a fragment its part of a mask; null for others.
const ir::StoreNode* MaskOf(const Stmt& s) {
  const auto* loop = s.as<ir::ParallelForNode>();
  const auto* store = loop != nullptr ? loop->body.as<ir::StoreNode>() : nullptr;
  if (store == nullptr || !store->buffer.IsFragment() || !IsMask(store->value)) return nullptr;
  const Buffer& tile = store->buffer;
  bool whole = store->indices.size() == loop->vars.size();
  for (size_t d = 0; whole && d < loop->vars.size(); ++d) {
    auto extent = ir::AsInt(loop->extents[d]);
    whole = store->indices[d].same_as(loop->vars[d]) && extent.has_value() &&
            extent == ir::AsInt(tile->shape[d]);
  }
  return whole ? store : nullptr;
}

bool AddsTo(const Stmt& s, const Buffer& tile) {
  const auto* gemm = s.as<ir::GemmNode>();
  return gemm != nullptr && gemm->result()->buffer.same_as(tile) && gemm->result().IsWhole() &&
         !gemm->HasInput(tile) && ir::IsConst(gemm->clear_accum, 0) && op::WaitsItself(gemm);
}

// Returns whether the mask is the same before and after a statement that does not use it.
bool Passes(const Stmt& s, const ir::StoreNode* mask) {
  if (ir::MayLeaveLoop(s) || ir::CountEffects(s, mask->buffer) > 0) return false;
  bool kept = true;
  ir::WalkExprs(mask->value, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    kept &= e->kind != ir::ExprKind::kCall;
    if (load == nullptr) return kept;
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      kept &= !(effect.Writes() && ir::MayOverlap(effect.buffer, load->buffer));
    });
    return kept;
  });
  return kept;
}

class Masker : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) stmts.push_back(MutateStmt(s));
    for (size_t i = 0; i < stmts.size(); ++i) {
      const ir::StoreNode* mask = MaskOf(stmts[i]);
      if (mask == nullptr) continue;
      if (auto gemm = GemmOf(stmts, i, mask)) MoveBehind(i, *gemm, &stmts);
    }
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  static std::optional<size_t> GemmOf(const std::vector<Stmt>& stmts, size_t at,
                                      const ir::StoreNode* mask) {
    for (size_t i = at + 1; i < stmts.size(); ++i) {
      if (AddsTo(stmts[i], mask->buffer)) return i;
      if (!Passes(stmts[i], mask)) break;
    }
    return std::nullopt;
  }

  static void MoveBehind(size_t at, size_t gemm_at, std::vector<Stmt>* stmts) {
    Stmt loop_stmt = (*stmts)[at];
    const auto* loop = loop_stmt.as<ir::ParallelForNode>();
    const auto* store = loop->body.as<ir::StoreNode>();
    const auto* gemm = (*stmts)[gemm_at].as<ir::GemmNode>();
    Expr sum = ir::Load(store->buffer, store->indices) + store->value;
    Stmt masked = ir::ParallelFor(loop->vars, loop->extents,
                                  ir::Store(store->buffer, store->indices, sum, store->span),
                                  loop->annotations, loop->span);
    Expr overwrites = ir::IntImm(ir::dtypes::kBool, 1);
    (*stmts)[gemm_at] =
        ir::Gemm(gemm->operands, overwrites, gemm->mbar, gemm->annotations, gemm->span);
    stmts->insert(stmts->begin() + static_cast<ptrdiff_t>(gemm_at) + 1, masked);
    stmts->erase(stmts->begin() + static_cast<ptrdiff_t>(at));
  }
};

}  // namespace

ir::Func MaskResults(const ir::Func& func, const Target& target) {
  if (target->tmem_columns == 0) return func;
  return func.WithBody(Masker().MutateStmt(func->body));
}

}  // namespace tilelang::lower
