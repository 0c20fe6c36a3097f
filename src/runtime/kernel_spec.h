// Describes what the host must know to launch a compiled function: its parameters and its grids.
#ifndef TILELANG_RUNTIME_KERNEL_SPEC_H_
#define TILELANG_RUNTIME_KERNEL_SPEC_H_

#include "ir/stmt.h"

namespace tilelang::runtime {

namespace ffi = tvm::ffi;

// A tensor map (CUtensorMap) made before each launch and passed as a __grid_constant__ argument.
class TensorMapSpecNode : public ffi::Object {
 public:
  ir::Buffer buffer;                    // a parameter of the function
  ir::DType dtype{};                    // element type that the copy engine sees
  ffi::Array<ir::Expr> dims;            // extents in elements, innermost first, 1 to 5
  ffi::Array<ir::Expr> strides;         // in bytes, of every dimension but the innermost
  ffi::Array<int64_t> box;              // tile in elements, innermost first
  ffi::Array<int64_t> element_strides;  // empty: all 1
  int64_t swizzle = 0;       // CUtensorMapSwizzle: 0 none, 1 32B, 2 64B, 3 128B, 4 128B_ATOM_32B
  int64_t interleave = 0;    // CUtensorMapInterleave
  int64_t l2_promotion = 2;  // CUtensorMapL2promotion: 2 is 128 bytes
  int64_t oob_fill = 0;      // CUtensorMapFloatOOBfill: 0 zeros

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.runtime.TensorMapSpec", TensorMapSpecNode, ffi::Object);
};
class TensorMapSpec : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(TensorMapSpec, ffi::ObjectRef, TensorMapSpecNode);
};

// One grid. The arguments of its __global__ function, in order, are given by what they are:
//   ir::Buffer     the address of a parameter or of a workspace
//   ir::Expr       a scalar of that dtype: a parameter, a symbolic dimension, or computed of them
//   TensorMapSpec  a tensor map
class LaunchSpecNode : public ffi::Object {
 public:
  ffi::String kernel_name;      // of the extern "C" __global__ function
  ffi::Array<ir::Expr> grid;    // 1 to 3 extents, x first
  ffi::Array<ir::Expr> block;   // 1 to 3 extents, x first
  ffi::Array<int64_t> cluster;  // empty, or 1 to 3 extents, x first
  ir::Expr shared_memory;       // dynamic, bytes per block
  ffi::Array<ffi::Any> args;
  bool cooperative = false;  // all blocks run at the same time
  bool dependent = false;    // may begin before the grid before it has ended

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.runtime.LaunchSpec", LaunchSpecNode, ffi::Object);
};
class LaunchSpec : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(LaunchSpec, ffi::ObjectRef, LaunchSpecNode);
};

class KernelSpecNode : public ffi::Object {
 public:
  ffi::String name;
  // As in ir::Func: Buffer (a tensor) or Var (a scalar, or an address of dtype handle). Symbolic
  // dimensions are Vars inside shapes and strides; their values come from the tensors passed.
  ffi::Array<ffi::Any> params;
  // Bytes to which the address of a tensor parameter must be aligned; default: its element size.
  ffi::Map<ir::Buffer, int64_t> alignment;
  // The tensor parameters that a launch may write to.
  ffi::Array<ir::Buffer> written;
  // Global buffers that live for one call.
  ffi::Array<ir::Buffer> workspaces;
  ffi::Array<LaunchSpec> launches;
  // Assertions that hold in every call (runtime/assumptions.h).
  ffi::Array<ir::Assert> assumptions;

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.runtime.KernelSpec", KernelSpecNode, ffi::Object);
};
class KernelSpec : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(KernelSpec, ffi::ObjectRef, KernelSpecNode);
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_KERNEL_SPEC_H_
