#include "analysis/independent_blocks.h"

#include <unordered_map>

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
    Uses& of = uses[effect.buffer.get()];
    of.reads |= effect.Reads();
    of.writes |= effect.Writes();
    independent = independent && !(of.reads && of.writes);
  });
  ir::WalkStmts(launch->body, [&](const ir::Stmt& s) {
    independent = independent && s->kind != ir::StmtKind::kWhile;
    return independent;
  });
  ir::WalkExprs(launch->body, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    bool known = ir::FindIntrinsic({call->name.data(), call->name.size()}) != nullptr;
    independent = independent && known && call->name != "call_extern";
    return true;
  });
  return independent;
}

}  // namespace tilelang::analysis
