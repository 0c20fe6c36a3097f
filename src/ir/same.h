// Lists of nodes, in which a node counts by identity.
#ifndef TILELANG_IR_SAME_H_
#define TILELANG_IR_SAME_H_

#include <algorithm>

namespace tilelang::ir {

template <typename List, typename Node>
bool HasSame(const List& list, const Node& node) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& other) { return other.same_as(node); });
}

template <typename List, typename Node>
void AddOnce(const Node& node, List* list) {
  if (!HasSame(*list, node)) list->push_back(node);
}

}  // namespace tilelang::ir

#endif  // TILELANG_IR_SAME_H_
