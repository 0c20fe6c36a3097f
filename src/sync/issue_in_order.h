// Tile operators one after another: each is issued where it stands. PlaceSynchronization says where
// it is waited for: waits that are written after it stand at the first statement that depends on
// it.
#ifndef TILELANG_SYNC_ISSUE_IN_ORDER_H_
#define TILELANG_SYNC_ISSUE_IN_ORDER_H_

#include <vector>

#include "memory/cta_resources.h"
#include "op/instruction.h"

namespace tilelang::sync {

// Operators of one engine and one group of threads that are issued together and share their waits.
using OperatorGroup = std::vector<const ir::TileOpNode*>;

// The operators that stmts[first..] begins with and that can be issued together; empty when
// stmts[first] is no operator. TMA copies join when none depends on another. Copies by tcgen05.cp
// join when they write different columns, since they are not ordered among each other; a gemm that
// waits for itself comes last, since the pipe is in order from them to it. Gemms by wgmma join when
// none reads the result of another.
OperatorGroup GroupAt(const ir::Array<ir::Stmt>& stmts, size_t first, const op::Context& ctx);

// Thread IR of a group: what its threads did before is made visible to the engine, the engine is
// asked, and the threads wait; not for stores by TMA, whose waits are written where they are
// needed, nor for a gemm with a barrier of the program, for which it waits itself.
ir::Stmt IssueInOrder(const OperatorGroup& group, memory::CtaResources* resources,
                      op::Lowering* lowering);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_ISSUE_IN_ORDER_H_
