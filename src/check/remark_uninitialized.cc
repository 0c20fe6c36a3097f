// Remarks on tiles that are read before anything is written to them, in program order.
#include <unordered_set>

#include "check/check_parts.h"
#include "ir/effects.h"
#include "ir/remark.h"

namespace tilelang::check {

namespace {

// What a read of old values asks for besides.
std::string Advice(const ir::Effect& effect) {
  if (effect.kind != ir::EffectKind::kAccumulate) return "";
  if (effect.By<ir::GemmNode>() != nullptr) {
    return "; T.gemm adds to it: T.clear it first, or pass clear_accum";
  }
  return "; the reduction adds to it: pass clear=True, or T.fill";
}

// Whether the statement needs what was there before. A gemm that may clear is trusted to.
bool NeedsOldValue(const ir::Effect& effect) {
  if (effect.kind == ir::EffectKind::kRead) return true;
  if (effect.kind != ir::EffectKind::kAccumulate) return false;
  const auto* gemm = effect.By<ir::GemmNode>();
  return gemm == nullptr || ir::IsConst(gemm->clear_accum, 0);
}

}  // namespace

void RemarkUninitialized(const ir::Func& func) {
  std::unordered_set<const tvm::ffi::Object*> written;
  ir::WalkEffects(func->body, [&](const ir::Effect& effect) {
    const ir::Buffer& buffer = effect.buffer;
    if (buffer.IsGlobal() || buffer.IsBarrier()) return;
    if (!written.insert(buffer.get()).second || !NeedsOldValue(effect)) return;
    Remark(effect.span, "check",
           Describe(buffer) + " is read before anything is written to it" + Advice(effect));
  });
}

}  // namespace tilelang::check
