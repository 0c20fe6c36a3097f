// The result of compilation: the source text and how to launch it.
#ifndef TILELANG_IR_COMPILED_H_
#define TILELANG_IR_COMPILED_H_

#include "ir/function.h"

namespace tilelang {

namespace ffi = tvm::ffi;

using ir::Any;
using ir::Array;
using ir::Expr;
using ir::String;

// A tensor map (CUtensorMap) that the host encodes before each launch and passes by value.
// Expressions are over the function's scalar parameters and symbolic dimensions.
class TensorMapInfoNode : public ffi::Object {
 public:
  ir::Var var;          // stands for the map's address in the kernel; dtype handle
  ir::Buffer buffer;    // the global tensor, whose pointer is the base address
  Array<Expr> dims;     // elements, fastest dimension first
  Array<Expr> strides;  // bytes, of dimensions 1.. (dimension 0 is contiguous)
  Array<int64_t> box;   // elements
  Array<int64_t> element_strides;
  int64_t swizzle = 0;             // bytes: 0 (none), 32, 64 or 128
  int64_t swizzle_atomicity = 16;  // bytes of the chunks that it moves: 16, or 32 with 128
  ir::DType dtype{};
  bool oob_nan = false;  // out-of-bounds elements read as NaN instead of zero

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.TensorMapInfo", TensorMapInfoNode, ffi::Object);
};
class TensorMapInfo : public ffi::ObjectRef {
 public:
  TensorMapInfo(ir::Var var, ir::Buffer buffer, Array<Expr> dims, Array<Expr> strides,
                Array<int64_t> box, Array<int64_t> element_strides, int64_t swizzle,
                int64_t swizzle_atomicity, ir::DType dtype, bool oob_nan);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(TensorMapInfo, ffi::ObjectRef, TensorMapInfoNode);
};

// A tile in the dynamic shared memory of a block, or in the registers of its threads, and which
// lines of the program use it.
class NamedTileNode : public ffi::Object {
 public:
  String name;
  bool in_registers = false;
  int64_t offset = 0;  // in shared memory, bytes
  int64_t bytes = 0;
  ir::Span span;         // of its allocation; may be null
  Array<ir::Span> uses;  // one for each line

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.NamedTile", NamedTileNode, ffi::Object);
};
class NamedTile : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(NamedTile, ffi::ObjectRef, NamedTileNode);
};

// One __global__ function and its launch.
class KernelInfoNode : public ffi::Object {
 public:
  String name;
  Array<Expr> grid;                  // up to three extents, x first
  Array<int64_t> block;              // threads, x first
  Array<int64_t> cluster;            // CTAs, x first; empty without clusters
  int64_t dyn_smem_bytes = 0;        // at most
  ffi::Optional<Expr> smem_at_call;  // bytes of dynamic shared memory where the call decides
  bool cooperative = false;          // all blocks run at the same time: they wait for each other
  bool dependent = false;  // may begin before the grid before it has ended, for which it waits
  // In the order of the kernel's parameters. Buffer: a pointer to a tensor (a parameter of the
  // function, or scratch memory that the launcher allocates). Var: a scalar, that is a parameter
  // of the function or a symbolic dimension. TensorMapInfo: a tensor map by value.
  Array<Any> params;
  Array<NamedTile> tiles;
  // Bytes at whose multiples tensors must begin, beside what vectors of the function need.
  ir::Map<ir::Buffer, int64_t> alignment;

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.KernelInfo", KernelInfoNode, ffi::Object);
};
class KernelInfo : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(KernelInfo, ffi::ObjectRef, KernelInfoNode);
};

class CompiledFuncNode : public ffi::Object {
 public:
  String source;          // CUDA C++, for people
  String lined_source;    // the same with #line directives to the kernel's Python file, for NVRTC
  Array<String> options;  // for NVRTC, beyond architecture, language and include path
  Array<KernelInfo> kernels;
  ir::Func func;        // as written by the user
  Array<Any> remarks;   // of the passes, in the order in which they were made
  Array<Any> schedule;  // of each launch (schedule/description.h)
  // Pass options under which the kernel may need fewer registers.
  Array<ir::Map<String, Any>> choices;
  bool registers_scarce = false;  // by the compiler's own estimate

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.CompiledFunc", CompiledFuncNode, ffi::Object);
};
class CompiledFunc : public ffi::ObjectRef {
 public:
  CompiledFunc WithNotes(Array<Any> remarks, Array<Any> schedule,
                         Array<ir::Map<String, Any>> choices, bool registers_scarce) const;
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(CompiledFunc, ffi::ObjectRef, CompiledFuncNode);
};

}  // namespace tilelang

#endif  // TILELANG_IR_COMPILED_H_
