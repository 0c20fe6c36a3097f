// Layouts of shared buffers that no hardware engine dictates: the one with the fewest bank
// conflicts.
#ifndef TILELANG_OP_SHARED_LAYOUT_H_
#define TILELANG_OP_SHARED_LAYOUT_H_

#include <optional>
#include <vector>

#include "op/parallel.h"

namespace tilelang::op {

// A parallel loop that touches the buffer.
struct SharedUse {
  const ParallelInfo* info;
  Fragment loop_layout;
};

// The best layout for the buffer among the row-major, swizzled and padded ones that fit its other
// users, judged by the bank cycles of one warp in every use; nothing when row-major is as good as
// any.
std::optional<Layout> ChooseSharedLayout(const Buffer& buffer, const std::vector<SharedUse>& uses,
                                         const std::function<bool(const Layout&)>& fits,
                                         Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_SHARED_LAYOUT_H_
