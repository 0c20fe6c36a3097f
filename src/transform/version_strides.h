#ifndef TILELANG_TRANSFORM_VERSION_STRIDES_H_
#define TILELANG_TRANSFORM_VERSION_STRIDES_H_

#include "ir/function.h"

namespace tilelang::transform {

// Kernels that go along rows whose length is known only at run time: where a row is as long as
// whole vectors of 16 bytes, all of them begin at one. The body is there twice, under a test of the
// lengths: with vectors, and element by element, each with the layouts that suit it. A remark names
// the test. Kernels with gemms, pipelined loops, barriers or annotated layouts stay as they are.
ir::Func VersionStrides(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_VERSION_STRIDES_H_
