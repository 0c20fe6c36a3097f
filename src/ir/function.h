// A function of the IR: what `@T.prim_func` gives.
#ifndef TILELANG_IR_FUNCTION_H_
#define TILELANG_IR_FUNCTION_H_

#include "ir/tile_op.h"

namespace tilelang::ir {

// params: Buffer (a tensor; scope "global") or Var (a scalar, or a pointer of dtype handle).
// Symbolic dimensions are Vars inside the shapes and strides of the buffers.
// body: one KernelLaunch, or a Seq of Alloc (T.alloc_global scratch) and KernelLaunch.
class FuncNode : public ffi::Object {
 public:
  String name;
  Array<Any> params;
  Stmt body;
  Map<String, Any> attrs;
  Span span;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Func", FuncNode, ffi::Object);
};
class Func : public ffi::ObjectRef {
 public:
  Func(String name, Array<Any> params, Stmt body, Map<String, Any> attrs, Span span = Span());
  Func WithBody(Stmt body) const;
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Func, ffi::ObjectRef, FuncNode);
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_FUNCTION_H_
