// Tiles in tensor memory that lie on the columns of others.
#ifndef TILELANG_OP_COLUMN_OWNER_H_
#define TILELANG_OP_COLUMN_OWNER_H_

#include "op/context.h"

namespace tilelang::op {

// The tile whose columns another tile takes: the attribute kColumnsOf (op/tmem.h), or what it is a
// view of.
std::optional<Buffer> OwnerOfColumns(const Buffer& tile);

// Returns whether the buffer is a view of another tile, and gives it the layout of that tile, which
// its own role decides by default. Raises LayoutError if elements of the view lie in parts.
bool SetViewLayout(const Buffer& buffer, const Span& user, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COLUMN_OWNER_H_
