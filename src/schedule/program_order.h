// The order that the program gives the statements of a pipelined loop: order=, stage=.
#ifndef TILELANG_SCHEDULE_PROGRAM_ORDER_H_
#define TILELANG_SCHEDULE_PROGRAM_ORDER_H_

#include <optional>
#include <vector>

#include "schedule/task.h"

namespace tilelang::schedule {

// A call of kPipelinePart stands before each part of a loop's body with its number; annotations
// "order" and "stage" of the loop have a number for each.
// The part that begins with the statement, if it is such a call.
std::optional<int64_t> PartAt(const ir::Stmt& s);
// Returns whether the program orders the body of the loop by marks.
bool HasProgramOrder(const ir::ForNode* loop);

// Returns whether the program's order says no more than that tiles are loaded in an earlier stage
// than the statements that use them: these are of one stage, in the order of the program.
bool OrdersLoadsAlone(const ir::ForNode* loop);
// The loop without the program's order.
ir::For WithoutProgramOrder(const ir::ForNode* loop);

// The order of the nodes in one round of the loop; their stages are set. An error where a node
// would run before one that it depends on. Slots are acquired right before their first use, and
// released where their last gemm is waited for anyway.
std::vector<size_t> ProgramOrder(const ir::ForNode* loop, std::vector<TaskNode>* nodes);

// Remarks on a statement of the part that the program gives a place, but another role executes as
// early as it can; and on one that it lets run ahead, which nobody does.
void RemarkLoadAhead(const ir::ForNode* loop, int64_t part, const ir::Stmt& s);
void RemarkNotAhead(const ir::ForNode* loop, int64_t part, const ir::Stmt& s);

// A remark that the program's order of this loop has no effect, because of that.
void RemarkProgramOrder(const ir::ForNode* loop, const std::string& reason);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_PROGRAM_ORDER_H_
