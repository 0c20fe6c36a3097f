#include "analysis/column_reads.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::Expr;
using ir::Stmt;

bool IsReadByColumns(const ir::KernelLaunchNode* launch, const ir::Buffer& tile) {
  int in_loops = 0;
  bool by_columns = false;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ParallelForNode>();
    if (loop == nullptr) return true;
    const ir::Var& last = loop->vars.back();
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      if (!effect.buffer.same_as(tile)) return;
      if (effect.kind != ir::EffectKind::kRead || effect.indices.empty()) return;
      ++in_loops;
      auto rows_end = effect.indices.end() - 1;
      by_columns |= !ir::UsesVar(*rows_end, last) &&
                    std::any_of(effect.indices.begin(), rows_end,
                                [&](const Expr& index) { return ir::UsesVar(index, last); });
    });
    return false;
  });
  constexpr int kCopies = 1;
  return by_columns && in_loops + kCopies == ir::CountEffects(launch->body, tile);
}

}  // namespace tilelang::analysis
