#include "check/check_program.h"

#include "check/check_parts.h"
#include "ir/printer.h"

namespace tilelang::check {

std::string Describe(const ir::Buffer& buffer) {
  std::string text = std::string(buffer->name) + " (";
  for (size_t i = 0; i < buffer->shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ir::Print(buffer->shape[i]);
  }
  return text + ") " + ir::ToString(buffer->dtype) + " in " + std::string(buffer->scope);
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

ir::Func CheckProgram(const ir::Func& func, const Target& target) {
  CheckScopes(func, ir::ThrowUserError);
  CheckResources(func, target);
  CheckTarget(func, target);
  CheckLoops(func);
  CheckBarriers(func);
  CheckTileOps(func);
  CheckClusters(func);
  CheckBounds(func, ir::ThrowUserError);
  RemarkUninitialized(func);
  return func;
}

}  // namespace tilelang::check
