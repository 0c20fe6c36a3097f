// Finds values that are the same in all threads of a CTA or of a role.
#ifndef TILELANG_ANALYSIS_UNIFORMITY_H_
#define TILELANG_ANALYSIS_UNIFORMITY_H_

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/thread_set.h"

namespace tilelang::analysis {

// The uniform values of one launch. A value is uniform if it is computed from block indices, scalar
// parameters, constants, memory that no thread changes or that all threads share, and variables
// that only take uniform values under uniform control flow.
class Uniformity {
 public:
  explicit Uniformity(const ir::KernelLaunchNode* launch);

  // The threads of the launch, with the variables bound in it.
  const BlockThreads& threads() const { return threads_; }
  bool IsUniform(const ir::Expr& e) const { return IsUniform(e, threads_.All()); }
  // Returns whether the value is the same in all of `active`, at a place that exactly these threads
  // reach together.
  bool IsUniform(const ir::Expr& e, const ThreadSet& active) const;
  // Returns whether the value is the same in all threads of each warp of `active`, because votes of
  // the warp give it, or the number of the warp.
  bool IsUniformInWarps(const ir::Expr& e, const ThreadSet& active) const;
  // All threads that reach the loop run it the same number of times: its bounds or condition are
  // uniform and no thread leaves or skips an iteration alone.
  bool IsUniformLoop(const ir::StmtNode* loop) const { return !varying_loops_.count(loop); }
  // A rewritten loop of which not all threads run the same iterations.
  void MarkLoop(const ir::StmtNode* loop) { varying_loops_.insert(loop); }

 private:
  friend class VariationFinder;

  bool IsShared(const ir::Buffer& buffer, const ThreadSet& active) const;
  // same: variables that have one value in these threads at this place.
  bool IsUniform(const ir::Expr& e, const ThreadSet& active,
                 const std::unordered_set<const ir::ffi::Object*>& same) const;

  BlockThreads threads_;
  std::unordered_set<const ir::ffi::Object*> varying_;  // variables and local buffers
  ir::Map<ir::Var, ir::Expr> values_;                   // of names
  // Local buffers to which only these threads, all of them, give one value.
  std::unordered_map<const ir::ffi::Object*, std::vector<ThreadSet>> role_stores_;
  std::unordered_set<const ir::ffi::Object*> written_;  // global buffers
  std::unordered_set<const ir::ffi::Object*> varying_loops_;
};

// Returns whether layouts give all iterations of the loop to every thread: it indexes an array of
// each thread, and no tile whose elements are spread over threads.
bool RunsInEveryThread(const ir::ParallelForNode* loop);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_UNIFORMITY_H_
