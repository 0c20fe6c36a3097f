// Conditions that hold for a part of a group of consecutive iterations: at the end of a tensor
// whose length is no multiple of a vector's.
#ifndef TILELANG_OP_RAGGED_H_
#define TILELANG_OP_RAGGED_H_

#include <optional>
#include <vector>

#include "op/context.h"

namespace tilelang::op {

// A comparison that is linear in the loop variables: it holds for a group of iterations of the last
// variable if it does at one end of the group.
struct RaggedCondition {
  Expr condition;
  bool at_last;  // the end is the last iteration of the group; else the first
  // The condition in the iteration of the loop that it holds in only if it holds in all of them;
  // undefined where that is not known.
  Expr everywhere = {};
};

// `condition` as such; nothing if it is none. It reads no memory and calls nothing.
std::optional<RaggedCondition> AsRagged(const Expr& condition, const ir::ParallelForNode* loop,
                                        Context* ctx);

// Returns the conditions around accesses of tensors in the loop that hold in all of its iterations
// if they hold in one of them.
std::vector<RaggedCondition> BoundsOf(const ir::ParallelForNode* loop, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_RAGGED_H_
