#ifndef TILELANG_CHECK_CHECK_LAYOUTS_H_
#define TILELANG_CHECK_CHECK_LAYOUTS_H_

#include "op/context.h"

namespace tilelang::check {

// Raises LayoutError when a layout that the user gave does not serve a tile operator executed by
// `threads`: an element of an annotated fragment, or an iteration of a loop with loop_layout=, that
// belongs to another thread; or a loop_layout= of another shape.
void CheckGivenLayouts(const ir::Stmt& stmt, const op::ThreadRange& threads,
                       const op::LayoutMap& annotated);

// Returns whether threads of different warps hold the same element.
bool IsSharedByWarps(const layout::Fragment& layout);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CHECK_LAYOUTS_H_
