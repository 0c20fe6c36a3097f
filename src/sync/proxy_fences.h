// fence.proxy.async: between what threads store to shared memory and an engine's use of it.
#ifndef TILELANG_SYNC_PROXY_FENCES_H_
#define TILELANG_SYNC_PROXY_FENCES_H_

#include <unordered_set>
#include <utility>
#include <vector>

#include "sync/pending_accesses.h"

namespace tilelang::sync {

class ProxyFences {
 public:
  // offsets: where buffers lie in shared memory, bytes.
  ProxyFences(const ir::Stmt& body, const ir::Map<ir::Buffer, int64_t>& offsets);

  // Returns whether threads have stored bytes that some engine accesses, without a fence since
  // then.
  bool Lacks(const PendingAccesses& state) const;
  // Puts a fence before this barrier.
  void Require(const ir::ffi::Object* barrier) { barriers_.insert(barrier); }
  // Returns `s` with the fences before its barriers. A fence also stands after each wait for copies
  // that arrive on an mbarrier themselves (T.cp_async_barrier_noinc): the copying threads may have
  // gone on before their copies complete, so the waiting threads execute the fence before they use
  // engines.
  ir::Stmt Place(const ir::Stmt& s) const;

 private:
  bool IsOfEngines(int64_t begin, int64_t end) const;

  std::vector<std::pair<int64_t, int64_t>> engine_bytes_;  // of shared memory: begin, end
  std::unordered_set<const ir::ffi::Object*> barriers_;
  std::unordered_set<const ir::ffi::Object*> of_copies_;  // mbarriers
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_PROXY_FENCES_H_
