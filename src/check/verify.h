// Invariants of the IR at each stage of compilation.
#ifndef TILELANG_CHECK_VERIFY_H_
#define TILELANG_CHECK_VERIFY_H_

#include <string>

#include "ir/function.h"

namespace tilelang::check {

enum class Stage {
  kTile,     // as written: tile operators on fragments and multi-dimensional buffers
  kLaidOut,  // every fragment has a layout
  kThread,   // no tile operators, no fragments; every buffer has one dimension
  kPlanned,  // every shared buffer has an offset
};

// Throws InternalError naming the pass, the stage and the invariant that does not hold:
//   all stages   variables are defined before use and once; buffers are parameters or allocated
//                in scope; accesses have the buffer's rank; conditions are bools; constant
//                indices are in bounds, but for regions of tensors, which tile operators clip
//   tile         likewise what T.Parallel touches of tensors, which GuardAccesses guards
//   laid out     layout_map has every fragment
//   thread       no tile operators, no fragments; buffers have one dimension
//   planned      shared buffers have places: inside dyn_smem_bytes, aligned, and two that are
//                live at the same time do not overlap
void Verify(const ir::Func& func, Stage stage, const std::string& pass);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_VERIFY_H_
