#include "ir/changed_launch.h"

#include <utility>

namespace tilelang::ir {

KernelLaunch WithBody(const KernelLaunchNode* launch, Stmt body) {
  return KernelLaunch(launch->block_vars, launch->grid, launch->thread_vars, launch->threads,
                      launch->attrs, std::move(body), launch->span);
}

KernelLaunch WithGrid(const KernelLaunchNode* launch, Array<Expr> grid) {
  return KernelLaunch(launch->block_vars, std::move(grid), launch->thread_vars, launch->threads,
                      launch->attrs, launch->body, launch->span);
}

KernelLaunch WithAttrs(const KernelLaunchNode* launch, Map<String, Any> attrs) {
  return KernelLaunch(launch->block_vars, launch->grid, launch->thread_vars, launch->threads,
                      std::move(attrs), launch->body, launch->span);
}

KernelLaunch WithAttr(const KernelLaunchNode* launch, const char* name, Any value) {
  auto attrs = launch->attrs;
  attrs.Set(name, std::move(value));
  return WithAttrs(launch, std::move(attrs));
}

}  // namespace tilelang::ir
