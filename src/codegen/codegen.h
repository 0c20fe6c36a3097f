// Thread IR to CUDA C++.
#ifndef TILELANG_CODEGEN_CODEGEN_H_
#define TILELANG_CODEGEN_CODEGEN_H_

#include "ir/compiled.h"
#include "target/target.h"

namespace tilelang {

struct CodegenOptions {
  bool fast_math = false;  // pass config "tl.enable_fast_math"
};

// The source of all kernels of `func`, whose body is thread IR with planned shared memory, and
// how to launch them. Kernels are named <func>_kernel, and <func>_kernel_1, .. when several.
CompiledFunc Codegen(const ir::Func& func, const Target& target,
                     const CodegenOptions& options = {});

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_CODEGEN_H_
