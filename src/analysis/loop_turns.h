// Proves that the iterations of a loop store to separate elements.
#ifndef TILELANG_ANALYSIS_LOOP_TURNS_H_
#define TILELANG_ANALYSIS_LOOP_TURNS_H_

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "arith/boxes_apart.h"
#include "ir/stmt.h"

namespace tilelang::analysis {

// An annotation of loops: what T.assume_disjoint states, pairs of a tensor's name and where.
inline constexpr const char* kDisjointStores = "disjoint_stores";
struct DisjointStores {
  std::string tensor;
  ir::Span span;
};
std::vector<DisjointStores> DisjointStoresOf(const ir::ForNode* loop);

class LoopTurns {
 public:
  // A loop of the launch.
  LoopTurns(const ir::Stmt& loop, const ir::KernelLaunchNode* launch);

  // Returns whether the boxes of an iteration have no element in common with the boxes of another
  // one. The boxes move together, so the proof is about the smallest box around them: first for
  // each dimension by the parts that do not depend on variables of the body, then by trying all
  // iterations of all blocks.
  bool AreApart(const std::vector<arith::MovingBox>& boxes) const;
  // Returns whether a range of shared memory may meet the earlier range of another iteration: see
  // arith::MayMeet.
  bool MayMeet(const arith::MovingRange& earlier, const arith::MovingRange& later, int64_t distance,
               int64_t most) const;
  // Returns whether the program promises this for its stores to the tensor.
  bool ArePromised(const ir::Buffer& tensor) const;

 private:
  void TakeConditions(const ir::Stmt& body);
  // Returns the box with the bindings of the body substituted.
  arith::MovingBox Expanded(const arith::MovingBox& box) const;
  std::optional<arith::MovingBox> Around(const std::vector<arith::MovingBox>& boxes) const;

  std::vector<DisjointStores> promises_;
  arith::Turns turns_;  // without a variable where their number is not known
  ir::Var var_;         // null of a while loop
  std::unordered_set<const ir::ffi::Object*> inside_;  // variables of loops in the body
  ir::Map<ir::Var, ir::Expr> names_;                   // what the body binds
  ir::Array<ir::Expr> conditions_;                     // of all that it does
  std::vector<arith::Turns> blocks_;                   // indices of blocks, in place of turns
};

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_LOOP_TURNS_H_
