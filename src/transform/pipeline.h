// From the tile IR of a kernel to CUDA C++.
#ifndef TILELANG_TRANSFORM_PIPELINE_H_
#define TILELANG_TRANSFORM_PIPELINE_H_

#include "ir/compiled.h"
#include "target/target.h"

namespace tilelang::transform {

using PassConfigs = ir::Map<ir::String, ir::Any>;

// Raises the user errors of tilelang.errors for kernels that cannot be compiled as written.
CompiledFunc Compile(const ir::Func& func, const Target& target, const PassConfigs& configs);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_PIPELINE_H_
