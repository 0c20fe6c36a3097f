#ifndef TILELANG_LOWER_INFER_LAYOUTS_H_
#define TILELANG_LOWER_INFER_LAYOUTS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Gives every fragment, and every shared buffer that needs one, a layout, and every parallel
// loop its map to threads. Operators are asked in order of strictness: what hardware dictates,
// then what follows from known layouts, then free choices, until nothing changes. Where a loop
// finds a fragment of another layout, a conversion through shared memory is inserted.
// use_tma: where an operator is replaced by others, the tensor memory accelerator may carry them
// out. Results: KernelLaunch.attrs["layout_map"], ParallelFor.annotations["loop_layout"].
ir::Func InferLayouts(const ir::Func& func, const Target& target, bool use_tma);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_INFER_LAYOUTS_H_
