// Copies between fragments whose elements are held by different threads.
#ifndef TILELANG_TRANSFORM_RELAYOUT_H_
#define TILELANG_TRANSFORM_RELAYOUT_H_

#include <vector>

#include "op/parallel.h"

namespace tilelang::transform {

// Appends a copy between two fragment regions of the same extents, constant and with layouts
// known: within each thread's registers where that suffices, else through shared memory.
void Relayout(const ir::Region& from, const ir::Region& to, op::Context* ctx,
              std::vector<ir::Stmt>* stmts);

// A shared buffer that stands for a fragment during a parallel loop: copied from it before, and
// back to it after (in front of what `after` holds), as far as the loop reads and writes it.
ir::Buffer StageInShared(const ir::Buffer& fragment, const op::ParallelInfo& loop, op::Context* ctx,
                         std::vector<ir::Stmt>* before, std::vector<ir::Stmt>* after);

// A copy between a fragment and tensor memory whose layouts no instruction joins goes by way of
// the nearest fragment that one moves. Raises LayoutError when there is none.
ir::Stmt ConvertTmemCopy(const ir::CopyNode* op, op::Context* ctx);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_RELAYOUT_H_
