#include "analysis/chained_gemms.h"

#include <algorithm>
#include <vector>

#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::Stmt;

namespace {

// Inputs that are fragments.
std::vector<ir::Buffer> InRegisters(const ir::GemmNode* gemm) {
  std::vector<ir::Buffer> result;
  for (const ir::GemmOperandNode* input : gemm->Inputs()) {
    if (input->buffer().IsFragment()) result.push_back(input->buffer());
  }
  return result;
}

}  // namespace

bool ChainedGemms::Has(const ir::GemmNode* gemm) const {
  const ir::ffi::Object* c = gemm->result()->buffer.get();
  return results_.count(c) != 0 || sources_.count(c) != 0;
}

ChainedGemms::ChainedGemms(const ir::KernelLaunchNode* launch) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    if (gemm == nullptr) return true;
    for (const ir::Buffer& input : InRegisters(gemm)) {
      sources_.insert(input.get());
      results_.insert(gemm->result()->buffer.get());
    }
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
