// Launches that differ from another one in one field.
#ifndef TILELANG_IR_CHANGED_LAUNCH_H_
#define TILELANG_IR_CHANGED_LAUNCH_H_

#include "ir/stmt.h"

namespace tilelang::ir {

KernelLaunch WithBody(const KernelLaunchNode* launch, Stmt body);
KernelLaunch WithGrid(const KernelLaunchNode* launch, Array<Expr> grid);
KernelLaunch WithAttrs(const KernelLaunchNode* launch, Map<String, Any> attrs);
// Sets one attribute, and leaves the others.
KernelLaunch WithAttr(const KernelLaunchNode* launch, const char* name, Any value);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_CHANGED_LAUNCH_H_
