// Which threads wait inside a statement for what asynchronous engines do there.
#ifndef TILELANG_ANALYSIS_ENGINE_WAITERS_H_
#define TILELANG_ANALYSIS_ENGINE_WAITERS_H_

#include <unordered_map>

#include "analysis/thread_set.h"
#include "ir/async.h"

namespace tilelang::analysis {

// The thread that waits for its stores by TMA, if it is known which it is; else none.
ThreadSet WaiterOf(const ir::WaitNode* wait, const BlockThreads& threads);

class EngineWaiters {
 public:
  // s: run by the threads of `active`.
  EngineWaiters(const ir::Stmt& s, const ThreadSet& active, const BlockThreads& threads);

  // Those that wait for any engine.
  const ThreadSet& OfAny() const { return any_; }
  // Those that wait for what engines do to a buffer; tensor memory counts as one buffer. A side of
  // a branch waits for its own.
  const ThreadSet& Of(const ir::Buffer& buffer) const;

 private:
  // Null for tensor memory; looked up, never walked in an order that shows.
  using Key = const ir::ffi::Object*;
  using ByBuffer = std::unordered_map<Key, ThreadSet>;

  static Key KeyOf(const ir::Buffer& buffer);
  void AddLeaf(const ir::Stmt& s, const ThreadSet& active, const BlockThreads& threads);
  void AddBranch(const ir::IfNode* op, const ThreadSet& active, const BlockThreads& threads);
  // Of two statements one after the other.
  void Add(const EngineWaiters& next);

  ThreadSet any_;
  ByBuffer of_;  // of each buffer that an engine uses
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_ENGINE_WAITERS_H_
