// Issues tile operators in program order, each at its place. PlaceSynchronization decides where the
// program waits for them: waits stand before the first statement that depends on the operator.
#ifndef TILELANG_SYNC_ISSUE_IN_ORDER_H_
#define TILELANG_SYNC_ISSUE_IN_ORDER_H_

#include <vector>

#include "memory/cta_resources.h"
#include "op/instruction.h"

namespace tilelang::sync {

// Operators of one engine and one group of threads that are issued together and share their waits.
using OperatorGroup = std::vector<const ir::TileOpNode*>;

// Returns the operators at the begin of stmts[first..] that can be issued together; none if
// stmts[first] is no operator. TMA copies join when none depends on another. Copies by tcgen05.cp
// join when they write different columns, since they are not ordered among each other; a gemm that
// waits for itself comes last, since the pipe is in order from them to it. Gemms by wgmma join when
// none reads the result of another.
OperatorGroup GroupAt(const ir::Array<ir::Stmt>& stmts, size_t first, const op::Context& ctx);

// Returns the thread IR of a group: a fence makes earlier accesses of its threads visible to the
// engine, the operators are issued, and the threads wait. They do not wait for TMA stores, whose
// waits stand where they are needed, nor for a gemm that completes on a barrier of the program.
ir::Stmt IssueInOrder(const OperatorGroup& group, memory::CtaResources* resources,
                      op::Lowering* lowering);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_ISSUE_IN_ORDER_H_
