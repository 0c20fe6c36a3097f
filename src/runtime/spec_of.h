#ifndef TILELANG_RUNTIME_SPEC_OF_H_
#define TILELANG_RUNTIME_SPEC_OF_H_

#include "ir/compiled.h"
#include "runtime/kernel_spec.h"

namespace tilelang::runtime {

// Returns how to launch a compiled function, and what `program`, from which it was made, assumes of
// calls. Tensors are aligned as the widest vector access of the code, or a tensor map, asks.
KernelSpec SpecOf(const CompiledFunc& compiled, const ir::Func& program);

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_SPEC_OF_H_
