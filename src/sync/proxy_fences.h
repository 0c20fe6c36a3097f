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

  // Whether threads have stored, without a fence since, what an engine touches somewhere.
  bool Lacks(const PendingAccesses& state) const;
  // A fence stands before this barrier.
  void Require(const ir::ffi::Object* barrier) { barriers_.insert(barrier); }
  // `s` with the fences before its barriers, and after its waits for copies that arrive on an
  // mbarrier themselves (T.cp_async_barrier_noinc): the threads that copied are not there when
  // their copies are, so those that wait put the fence before their calls of engines.
  ir::Stmt Place(const ir::Stmt& s) const;

 private:
  bool IsOfEngines(int64_t begin, int64_t end) const;

  std::vector<std::pair<int64_t, int64_t>> engine_bytes_;  // of shared memory: begin, end
  std::unordered_set<const ir::ffi::Object*> barriers_;
  std::unordered_set<const ir::ffi::Object*> of_copies_;  // mbarriers
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_PROXY_FENCES_H_
