// Which values are the same in all threads of a CTA.
#ifndef TILELANG_TRANSFORM_UNIFORMITY_H_
#define TILELANG_TRANSFORM_UNIFORMITY_H_

#include <unordered_set>

#include "ir/stmt.h"

namespace tilelang::transform {

// Of one launch. A value is uniform when it is computed from block indices, scalar parameters,
// constants, memory that no thread changes or that all threads share, and variables that only
// ever take uniform values under uniform control flow.
class Uniformity {
 public:
  explicit Uniformity(const ir::KernelLaunchNode* launch);

  bool IsUniform(const ir::Expr& e) const;
  // All threads run the loop the same number of times: its bounds or condition are uniform and
  // no thread leaves or skips an iteration alone.
  bool IsUniformLoop(const ir::StmtNode* loop) const { return !varying_loops_.count(loop); }
  // A rewritten loop of which not all threads run the same iterations.
  void MarkLoop(const ir::StmtNode* loop) { varying_loops_.insert(loop); }

 private:
  friend class VariationFinder;

  std::unordered_set<const ir::ffi::Object*> varying_;  // variables and "local.var" buffers
  std::unordered_set<const ir::ffi::Object*> written_;  // global buffers
  std::unordered_set<const ir::ffi::Object*> varying_loops_;
};

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_UNIFORMITY_H_
