// The place of a node in the user's Python file.
#ifndef TILELANG_IR_SPAN_H_
#define TILELANG_IR_SPAN_H_

#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

namespace tilelang::ir {

namespace ffi = tvm::ffi;

// A range of source text: lines count from 1, columns from 1, the end column is exclusive.
class SpanNode : public ffi::Object {
 public:
  ffi::String file;
  int64_t line = 0;
  int64_t column = 0;
  int64_t end_line = 0;
  int64_t end_column = 0;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.Span", SpanNode, ffi::Object);
};

class Span : public ffi::ObjectRef {
 public:
  Span(ffi::String file, int64_t line, int64_t column, int64_t end_line, int64_t end_column);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Span, ffi::ObjectRef, SpanNode);
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_SPAN_H_
