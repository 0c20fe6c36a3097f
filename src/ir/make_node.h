// Making nodes of statements and tile operators.
#ifndef TILELANG_IR_MAKE_NODE_H_
#define TILELANG_IR_MAKE_NODE_H_

#include "ir/span.h"

namespace tilelang::ir {

// A node at `span`, its other fields still to be filled in.
template <typename NodeT>
ffi::ObjectPtr<NodeT> MakeNode(Span span) {
  auto node = ffi::make_object<NodeT>();
  node->span = std::move(span);
  return node;
}

}  // namespace tilelang::ir

#endif  // TILELANG_IR_MAKE_NODE_H_
