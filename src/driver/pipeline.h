// From the tile IR of a kernel to CUDA C++.
#ifndef TILELANG_DRIVER_PIPELINE_H_
#define TILELANG_DRIVER_PIPELINE_H_

#include "ir/compiled.h"
#include "target/target.h"

namespace tilelang::driver {

using PassConfigs = ir::Map<ir::String, ir::Any>;

// Raises the user errors of tilelang.errors for kernels that cannot be compiled as written.
// `overlapping`: for calls in which tensors overlap (ir/aliases.h).
CompiledFunc Compile(const ir::Func& func, const Target& target, const PassConfigs& configs,
                     bool overlapping);

}  // namespace tilelang::driver

#endif  // TILELANG_DRIVER_PIPELINE_H_
