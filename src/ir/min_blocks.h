// Blocks that an SM must hold at a time (T.annotate_min_blocks_per_sm, or a choice of the
// compiler): ptxas leaves registers for them.
#ifndef TILELANG_IR_MIN_BLOCKS_H_
#define TILELANG_IR_MIN_BLOCKS_H_

#include "ir/stmt.h"

namespace tilelang::ir {

// Returns whether the launch states how many.
bool StatesMinBlocks(const KernelLaunchNode* launch);
// Returns how many: 1 if the launch states none.
int64_t MinBlocks(const KernelLaunchNode* launch);
KernelLaunch WithMinBlocks(const KernelLaunchNode* launch, int64_t blocks);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_MIN_BLOCKS_H_
