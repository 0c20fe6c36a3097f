// T.copy from shared to tensor memory by tcgen05.cp: one thread asks, the tensor core's pipe moves.
#ifndef TILELANG_OP_COPY_TMEM_CP_H_
#define TILELANG_OP_COPY_TMEM_CP_H_

#include <functional>
#include <string>
#include <vector>

#include "op/access.h"
#include "op/issue.h"

namespace tilelang::op {

// Whether the copy moves shared memory to tensor memory, without a fragment in between.
bool IsTmemCp(const ir::CopyNode* op);

// Why tcgen05.cp cannot do a copy from shared to tensor memory, as far as its two regions tell;
// empty when it can if the layouts fit.
std::string TmemCpObstacle(const ir::CopyNode* op);

// Gives the tensor memory the layout of its default role, and the shared buffer, if it has none
// yet, the widest swizzled layout that tcgen05.cp reads and that `fits` its other users. Leaves
// what does not fit alone (see TmemCpMismatch).
void InferTmemCp(const ir::CopyNode* op, InferLevel level,
                 const std::function<bool(const Layout&)>& fits, Context* ctx);

// Why tcgen05.cp cannot do the copy in the layouts that its buffers have; empty when it can.
std::string TmemCpMismatch(const ir::CopyNode* op, Context* ctx);

// The copies of stmts[first..] that one thread can issue together: they write different columns,
// since tcgen05.cp is ordered before tcgen05.mma but not before another tcgen05.cp.
std::vector<const ir::CopyNode*> TmemCpGroup(const Array<Stmt>& stmts, size_t first,
                                             const Context& ctx);

// The instructions of one copy, for one thread.
void IssueTmemCp(const ir::CopyNode* op, PhysicalBuffers* buffers, Context* ctx,
                 std::vector<Stmt>* stmts);

// Issues a group and waits for it.
Stmt LowerTmemCps(const std::vector<const ir::CopyNode*>& group, const Completion& completion,
                  PhysicalBuffers* buffers, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_TMEM_CP_H_
