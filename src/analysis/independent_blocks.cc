#include "analysis/independent_blocks.h"

#include <unordered_map>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

bool AreIndependent(const ir::KernelLaunchNode* launch) {
  struct Uses {
    bool reads = false;
    bool writes = false;
  };
  std::unordered_map<const ir::ffi::Object*, Uses> uses;
  bool independent = true;
  ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
    if (!effect.buffer.IsGlobal()) return;
    Uses& of = uses[ir::MemoryOf(effect.buffer)];
    of.reads |= effect.Reads();
    of.writes |= effect.Writes();
    independent = independent && !(of.reads && of.writes);
  });
  auto loops = [](const ir::Stmt& s) { return s->kind == ir::StmtKind::kWhile; };
  auto unknown = [](const ir::CallNode* call) {
    return call->intrinsic == nullptr || call->Is(ir::Builtin::kExtern);
  };
  return independent && !ir::HasStmt(launch->body, loops) && !ir::HasCall(launch->body, unknown);
}

}  // namespace tilelang::analysis
