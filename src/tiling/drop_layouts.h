// Layouts that a program names although the compiler would choose them.
#ifndef TILELANG_TILING_DROP_LAYOUTS_H_
#define TILELANG_TILING_DROP_LAYOUTS_H_

#include "ir/function.h"

namespace tilelang::tiling {

// Drops T.annotate_layout from launches of plain and chained GEMMs (tiling/plain_gemm.h) if each
// layout is that of a shared tile with the widest swizzle of its rows, in which TMA stores and the
// tensor core reads it. Tiles get the same layouts without an annotation. With one, they would keep
// the program's extents, since the layout states them.
//
// For all targets. Any other layout in a launch keeps all of them.
ir::Func DropLayouts(const ir::Func& func);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_DROP_LAYOUTS_H_
