// Shared memory that the compiler adds for its own use.
#ifndef TILELANG_OP_SCRATCH_H_
#define TILELANG_OP_SCRATCH_H_

#include "ir/tile_op.h"

namespace tilelang::op {

// The attribute of such a buffer; true. T.cumsum sets it, too.
inline constexpr const char* kScratch = "scratch";

inline ir::Map<ir::String, ir::Any> ScratchAttrs() {
  ir::Map<ir::String, ir::Any> attrs;
  attrs.Set(kScratch, true);
  return attrs;
}

inline bool IsScratch(const ir::Buffer& buffer) { return buffer->attrs.count(kScratch) != 0; }

}  // namespace tilelang::op

#endif  // TILELANG_OP_SCRATCH_H_
