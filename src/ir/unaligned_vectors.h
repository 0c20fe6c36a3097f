// Vectors that begin at any element.
#ifndef TILELANG_IR_UNALIGNED_VECTORS_H_
#define TILELANG_IR_UNALIGNED_VECTORS_H_

#include "ir/stmt.h"

namespace tilelang::ir {

// A VectorLoop in which the vectors of some of its buffers may begin at any element.
For WithUnaligned(const For& loop, const Array<Buffer>& buffers);
// Returns whether the vectors of a buffer may be unaligned.
bool IsUnaligned(const ForNode* loop, const Buffer& buffer);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_UNALIGNED_VECTORS_H_
