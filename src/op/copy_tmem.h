// T.copy between a fragment and tensor memory: tcgen05.ld and tcgen05.st.
#ifndef TILELANG_OP_COPY_TMEM_H_
#define TILELANG_OP_COPY_TMEM_H_

#include "op/access.h"
#include "op/context.h"

namespace tilelang::op {

// Whether the copy moves registers to or from tensor memory.
bool IsTmemCopy(const ir::CopyNode* op);

// A copy to or from tensor memory by way of a fragment of the tile's dtype: both halves are copies.
Stmt ThroughFragment(const ir::CopyNode* op);

// Either side may be known first: the layout of the tensor memory gives the fragment in which an
// instruction moves it; a fragment that is already fixed is realised by whichever instructions
// fit, or converted where none does (see TmemCopyMismatch and NearestFragment).
void InferTmemCopy(const ir::CopyNode* op, InferLevel level, Context* ctx);

// Why no instruction moves between the two layouts; empty when one does.
std::string TmemCopyMismatch(const ir::CopyNode* op, Context* ctx);

// The fragment, over the extents of the copy's region, to convert the copy's own to (before a
// store) or from (after a load) when they do not fit. Raises LayoutError, with both layouts, when
// no instruction moves the tile at all.
Fragment NearestFragment(const ir::CopyNode* op, Context* ctx);

// The instructions, then the wait for them. `across_warps`: another copy may touch the same cells
// from other warps, so that a barrier must come first.
Stmt LowerTmemCopy(const ir::CopyNode* op, bool across_warps, PhysicalBuffers* buffers,
                   Context* ctx);

// The buffers in tensor memory whose cells are not always moved by the same warps: those that are
// copied in several ways, and those that take columns which another buffer had before.
std::vector<Buffer> TmemSharedByWarps(const Stmt& body, const LayoutMap& layouts,
                                      const TensorMemory& memory, int64_t cta_threads);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_TMEM_H_
