#ifndef TILELANG_TILING_VERSION_LAUNCHES_H_
#define TILELANG_TILING_VERSION_LAUNCHES_H_

#include "ir/function.h"

namespace tilelang::tiling {

// Plain gemms (tiling/plain_gemm.h) of tensors with rows whose length is known only at run time:
// where every row is as long as whole vectors of 16 bytes, the tensor memory accelerator or
// cp.async can load the tiles; else threads have to, element by element, which takes ten times as
// long. The launch is there twice, each with a grid that is empty where the other one's is not, so
// that the host decides and the rest of the compiler has two kernels. A remark names the test.
ir::Func VersionLaunches(const ir::Func& func);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_VERSION_LAUNCHES_H_
