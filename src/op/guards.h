// Conditions under which alone an element is touched in the body of a parallel loop.
#ifndef TILELANG_OP_GUARDS_H_
#define TILELANG_OP_GUARDS_H_

#include <unordered_map>
#include <vector>

#include "ir/stmt.h"

namespace tilelang::op {

// A condition that holds (or does not) wherever an element is touched.
struct Guard {
  ir::Expr condition;
  bool holds;
};

// Returns the guards of each load and store in a statement. A load that stands in several places
// has the guards that all places have in common.
std::unordered_map<const tvm::ffi::Object*, std::vector<Guard>> GuardsOfAccesses(
    const ir::Stmt& body);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GUARDS_H_
