// Calls whose value is the same in all threads of a warp.
#ifndef TILELANG_IR_WARP_VALUES_H_
#define TILELANG_IR_WARP_VALUES_H_

#include "ir/intrinsics.h"

namespace tilelang::ir {

// Returns whether the call is a vote of the whole warp (T.any_sync, T.all_sync, T.ballot without a
// mask).
bool IsVoteOfWarp(const CallNode* call);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_WARP_VALUES_H_
