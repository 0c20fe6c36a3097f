#include "sync/proxy_fences.h"

#include <algorithm>

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/effect.h"

namespace tilelang::sync {

using ir::Stmt;

ProxyFences::ProxyFences(const Stmt& body, const ir::Map<ir::Buffer, int64_t>& offsets) {
  ir::WalkExprs(body, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    for (const ir::MemoryEffect& effect : ir::CallEffects(call)) {
      if (effect.proxy != ir::Proxy::kAsync || !effect.buffer.IsShared()) continue;
      int64_t begin = offsets[effect.buffer];
      int64_t size = *ir::AsInt(effect.buffer->shape[0]) * ir::Bytes(effect.buffer->dtype);
      engine_bytes_.emplace_back(begin, begin + size);
    }
    return true;
  });
}

bool ProxyFences::Lacks(const PendingAccesses& state) const {
  return std::any_of(state.All().begin(), state.All().end(), [&](const PendingAccess& p) {
    if (!p.IsStoreByThreads() || p.fenced) return false;
    return std::any_of(engine_bytes_.begin(), engine_bytes_.end(), [&](const auto& bytes) {
      return p.access->begin < bytes.second && bytes.first < p.access->end;
    });
  });
}

Stmt ProxyFences::Place(const Stmt& s) const {
  class Mutator : public ir::StmtMutator {
   public:
    explicit Mutator(const std::unordered_set<const ir::ffi::Object*>& barriers)
        : barriers_(barriers) {}
    Stmt MutateStmt(const Stmt& s) override {
      if (!barriers_.count(s.get())) return StmtMutator::MutateStmt(s);
      return ir::Seq({op::Effect("fence_proxy_async", {}, s.span()), s}, s.span());
    }

   private:
    const std::unordered_set<const ir::ffi::Object*>& barriers_;
  };
  return Mutator(barriers_).MutateStmt(s);
}

}  // namespace tilelang::sync
