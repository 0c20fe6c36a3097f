#include "analysis/chained_gemms.h"

#include <algorithm>
#include <vector>

#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::Stmt;

ChainedGemms::ChainedGemms(const ir::KernelLaunchNode* launch) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    if (gemm != nullptr && gemm->a->buffer.IsFragment()) sources_.insert(gemm->a->buffer.get());
    return true;
  });
  for (bool changed = !sources_.empty(); changed;) {
    changed = false;
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      bool elementwise = s->kind == ir::StmtKind::kParallelFor || s->kind == ir::StmtKind::kCopy;
      if (!elementwise) return true;
      std::vector<ir::Effect> effects = ir::EffectsOf(s);
      bool becomes_a = std::any_of(effects.begin(), effects.end(), [&](const ir::Effect& effect) {
        return effect.Writes() && sources_.count(effect.buffer.get()) != 0;
      });
      for (const ir::Effect& effect : effects) {
        if (!becomes_a || !effect.Reads() || !effect.buffer.IsFragment()) continue;
        changed |= sources_.insert(effect.buffer.get()).second;
      }
      return false;
    });
  }
}

}  // namespace tilelang::analysis
