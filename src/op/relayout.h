// Copies between fragments whose elements are held by different threads.
#ifndef TILELANG_OP_RELAYOUT_H_
#define TILELANG_OP_RELAYOUT_H_

#include <vector>

#include "op/parallel.h"

namespace tilelang::op {

// The layout of a constant region of a fragment, over its extents.
Fragment LayoutOf(const ir::Region& region, Context* ctx);

// Appends a copy between two fragment regions of the same extents, constant and with layouts
// known: within each thread's registers where that suffices, else through shared memory. `span` is
// that of the statement which needs it.
void Relayout(const ir::Region& from, const ir::Region& to, const ir::Span& span, Context* ctx,
              std::vector<ir::Stmt>* stmts);

// Returns whether each of these threads holds all elements of the fragment.
bool IsHeldByAll(const Fragment& fragment, const ThreadRange& threads);
// Appends a copy of a constant region of a fragment to shared memory; returns that.
ir::Buffer StageRead(const ir::Region& read, const ir::Span& span, Context* ctx,
                     std::vector<ir::Stmt>* stmts);

// A shared buffer that stands for a fragment during a parallel loop: copied from it before, and
// back to it after (in front of what `after` holds), as far as the loop reads and writes it.
ir::Buffer StageInShared(const ir::Buffer& fragment, const ParallelInfo& loop, Context* ctx,
                         std::vector<ir::Stmt>* before, std::vector<ir::Stmt>* after);

}  // namespace tilelang::op

#endif  // TILELANG_OP_RELAYOUT_H_
