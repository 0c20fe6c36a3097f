#include "ir/span.h"

#include "registry/functions.h"

namespace tilelang::ir {

Span::Span(ffi::String file, int64_t line, int64_t column, int64_t end_line, int64_t end_column) {
  auto node = ffi::make_object<SpanNode>();
  node->file = std::move(file);
  node->line = line;
  node->column = column;
  node->end_line = end_line;
  node->end_column = end_column;
  data_ = std::move(node);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<SpanNode>()
      .def_ro("file", &SpanNode::file)
      .def_ro("line", &SpanNode::line)
      .def_ro("column", &SpanNode::column)
      .def_ro("end_line", &SpanNode::end_line)
      .def_ro("end_column", &SpanNode::end_column);
  registry::Functions().Add("tl.ir.Span", [](ffi::String file, int64_t line, int64_t column,
                                             int64_t end_line, int64_t end_column) {
    return Span(std::move(file), line, column, end_line, end_column);
  });
}

}  // namespace tilelang::ir
