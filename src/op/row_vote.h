// Branches that a warp takes where it holds a row that a condition asks for.
#ifndef TILELANG_OP_ROW_VOTE_H_
#define TILELANG_OP_ROW_VOTE_H_

#include "op/access.h"

namespace tilelang::op {

// Returns whether any flag that the warp's threads hold is set; `flags` is a fragment of one
// dimension. It is the condition of a branch around work that changes nothing on rows whose flag is
// not set.
Expr AnyRow(const Buffer& flags, const Span& span);
// The flags, where `condition` is the above; else null.
Buffer FlagsOf(const Expr& condition);

// Returns whether the flag of row i is in all warps that hold elements [i, ...] of fragments that
// the copies in `body` move. If it is not, some warps would skip work that they have to do.
bool WarpsHoldFlags(const Buffer& flags, const Stmt& body, const Context& ctx);

// The vote, over what the threads have in their registers.
Expr LowerAnyRow(const Buffer& flags, PhysicalBuffers* buffers, const LayoutMap& layouts,
                 const Span& span);

}  // namespace tilelang::op

#endif  // TILELANG_OP_ROW_VOTE_H_
