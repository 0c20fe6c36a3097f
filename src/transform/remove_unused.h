#ifndef TILELANG_TRANSFORM_REMOVE_UNUSED_H_
#define TILELANG_TRANSFORM_REMOVE_UNUSED_H_

#include "ir/stmt.h"

namespace tilelang::transform {

// Without Binds of pure values that nothing uses, and Allocs of buffers that nothing mentions
// (barriers and tensor memory are kept: they are part of the CTA's set-up).
ir::Stmt RemoveUnused(const ir::Stmt& body);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_REMOVE_UNUSED_H_
