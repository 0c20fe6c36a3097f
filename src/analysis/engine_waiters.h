// The threads that wait for asynchronous engines inside of a statement.
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

  // Returns the threads that wait for any engine.
  const ThreadSet& OfAny() const { return any_; }
  // Returns the threads that wait for the effects of engines on a buffer; tensor memory counts as
  // one buffer. Each side of a branch waits for itself.
  const ThreadSet& Of(const ir::Buffer& buffer) const;

 private:
  // Null for tensor memory; looked up, never walked in an order that shows.
  using Key = const ir::ffi::Object*;
  using ByBuffer = std::unordered_map<Key, ThreadSet>;

  static Key KeyOf(const ir::Buffer& buffer);
  void AddLeaf(const ir::Stmt& s, const ThreadSet& active, const BlockThreads& threads);
  void AddBranch(const ir::IfNode* op, const ThreadSet& active, const BlockThreads& threads);
  // Adds the threads that wait in the next statement.
  void Add(const EngineWaiters& next);

  ThreadSet any_;
  ByBuffer of_;  // of each buffer that an engine uses
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_ENGINE_WAITERS_H_
