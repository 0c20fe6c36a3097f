#include "check/check_program.h"

#include "check/check_parts.h"
#include "ir/memory_name.h"
#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::check {

std::string Describe(const ir::Buffer& buffer) {
  std::string text = std::string(buffer->name) + " (" + ir::ToString(buffer->dtype) + "[";
  for (size_t i = 0; i < buffer->shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ir::Print(buffer->shape[i]);
  }
  return text + "] in " + ir::MemoryName(buffer) + ")";
}

const char* TileOpName(const ir::Stmt& s) {
  switch (s->kind) {
    case ir::StmtKind::kCopy:
      return "T.copy";
    case ir::StmtKind::kFill:
      return "T.fill or T.clear";
    case ir::StmtKind::kReduce:
      return "a reduction";
    case ir::StmtKind::kGemm:
      return "T.gemm";
    case ir::StmtKind::kParallelFor:
      return "T.Parallel";
    default:
      return nullptr;
  }
}

// Checks that code that runs on the GPU stands in a T.Kernel.
static void CheckLaunches(const ir::Func& func) {
  bool launches = false;
  ir::WalkStmts(func->body, [&](const ir::Stmt& s) {
    if (s->kind == ir::StmtKind::kStore) {
      TL_USER_ERROR(kScope, s.span(),
                    Describe(s.as<ir::StoreNode>()->buffer)
                        << " is written outside of `with T.Kernel(...)`; move the statement into "
                           "a T.Kernel block, because only these run on the GPU");
    }
    if (s->kind != ir::StmtKind::kKernelLaunch) return true;
    launches = true;
    return false;
  });
  if (!launches) {
    TL_USER_ERROR(kScope, func->span,
                  std::string(func->name)
                      << " launches no kernel, because it has no T.Kernel block. Put the code that "
                         "runs on the GPU under `with T.Kernel(...)`");
  }
}

ir::Func CheckProgram(const ir::Func& func, const Target& target) {
  CheckScopes(func, ir::ThrowUserError);
  CheckLaunches(func);
  CheckResources(func, target);
  CheckTarget(func, target);
  CheckLoops(func);
  CheckUpdates(func);
  CheckBarriers(func);
  CheckTileOps(func);
  CheckClusters(func);
  CheckBounds(func, Written::kByUser, ir::ThrowUserError);
  RemarkUninitialized(func);
  return func;
}

}  // namespace tilelang::check
