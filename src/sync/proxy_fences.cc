#include "sync/proxy_fences.h"

#include <algorithm>

#include "analysis/waits.h"
#include "ir/async.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::sync {

using ir::Stmt;

ProxyFences::ProxyFences(const Stmt& body, const ir::Map<ir::Buffer, int64_t>& offsets) {
  std::unordered_set<const ir::ffi::Object*> arrived_on;
  std::vector<std::pair<int64_t, int64_t>> copied;
  ir::WalkExprs(body, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    bool copies = call->Is(ir::Builtin::kCpAsync) || call->Is(ir::Builtin::kCpAsyncOrdered);
    for (const ir::MemoryEffect& effect : ir::CallEffects(call)) {
      bool by_engine = effect.proxy == ir::Proxy::kAsync;
      if (!effect.buffer.IsShared() || !(by_engine || copies)) continue;
      int64_t begin = offsets[effect.buffer];
      int64_t size = *ir::AsInt(effect.buffer->shape[0]) * ir::Bytes(effect.buffer->dtype);
      (by_engine ? engine_bytes_ : copied).emplace_back(begin, begin + size);
    }
    return true;
  });
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* arrive = s.as<ir::ArriveNode>();
    bool of_copies = arrive != nullptr && arrive->Kind() == ir::ArriveKind::kCopies;
    if (of_copies) arrived_on.insert(arrive->barrier().get());
    return true;
  });
  bool needed = std::any_of(copied.begin(), copied.end(), [&](const auto& bytes) {
    return IsOfEngines(bytes.first, bytes.second);
  });
  if (needed) of_copies_ = std::move(arrived_on);
}

bool ProxyFences::IsOfEngines(int64_t begin, int64_t end) const {
  return std::any_of(engine_bytes_.begin(), engine_bytes_.end(),
                     [&](const auto& bytes) { return begin < bytes.second && bytes.first < end; });
}

bool ProxyFences::Lacks(const PendingAccesses& state) const {
  return std::any_of(state.All().begin(), state.All().end(), [&](const PendingAccess& p) {
    return p.IsStoreByThreads() && !p.fenced && IsOfEngines(p.access->begin, p.access->end);
  });
}

Stmt ProxyFences::Place(const Stmt& s) const {
  class Mutator : public ir::StmtMutator {
   public:
    Mutator(const std::unordered_set<const ir::ffi::Object*>& barriers,
            const std::unordered_set<const ir::ffi::Object*>& of_copies)
        : barriers_(barriers), of_copies_(of_copies) {}
    Stmt MutateStmt(const Stmt& s) override {
      bool before = barriers_.count(s.get()) != 0;
      bool after = s->kind == ir::StmtKind::kWaitParity &&
                   of_copies_.count(analysis::MbarrierWaitedOn(s).get()) != 0;
      if (!before && !after) return StmtMutator::MutateStmt(s);
      Stmt fence = ir::Fence(ir::FenceKind::kAsyncProxy, s.span());
      return before ? ir::Seq({fence, s}, s.span()) : ir::Seq({s, fence}, s.span());
    }

   private:
    const std::unordered_set<const ir::ffi::Object*>& barriers_;
    const std::unordered_set<const ir::ffi::Object*>& of_copies_;
  };
  return Mutator(barriers_, of_copies_).MutateStmt(s);
}

}  // namespace tilelang::sync
