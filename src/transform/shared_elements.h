#ifndef TILELANG_TRANSFORM_SHARED_ELEMENTS_H_
#define TILELANG_TRANSFORM_SHARED_ELEMENTS_H_

#include <functional>
#include <vector>

#include "ir/stmt.h"

namespace tilelang::transform {

// An expression that reads elements of tensors through shared memory, and the statements that bring
// them there: an allocation and a copy for each, in which one thread reads the element for all.
struct SharedElements {
  std::vector<ir::Stmt> stmts;
  ir::Expr value;
};

// Replaces the loads that `is_shared` selects.
SharedElements ShareElements(const ir::Expr& e,
                             const std::function<bool(const ir::LoadNode*)>& is_shared);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SHARED_ELEMENTS_H_
