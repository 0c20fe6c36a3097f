#include "tiling/row_program.h"

#include <algorithm>

#include "analysis/independent_blocks.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "layout/digits.h"
#include "layout/layout.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

bool HasRowsOnly(const ir::KernelLaunchNode* launch) {
  const auto* body = launch->body.as<ir::SeqNode>();
  if (body == nullptr || !launch->attrs.empty() || launch->threads.size() != 1) return false;
  bool only = true;
  for (const Stmt& s : body->stmts) {
    const auto* alloc = s.as<ir::AllocNode>();
    const auto* copy = s.as<ir::CopyNode>();
    const auto* loop = s.as<ir::ParallelForNode>();
    bool kind = s->kind == ir::StmtKind::kFill || s->kind == ir::StmtKind::kReduce ||
                s->kind == ir::StmtKind::kBind;
    kind = kind || (alloc != nullptr && alloc->buffer.IsFragment());
    kind = kind || (copy != nullptr && copy->IsPlain());
    kind = kind || (loop != nullptr && loop->annotations.empty());
    only = only && kind;
  }
  ir::WalkExprs(launch->body, [&](const Expr& e) {
    for (const ir::Var& thread : launch->thread_vars) only = only && !e.same_as(thread);
    const auto* call = e.as<ir::CallNode>();
    only = only && (call == nullptr || (call->intrinsic != nullptr && call->intrinsic->pure));
    return only;
  });
  return only && analysis::AreIndependent(launch);
}

int64_t LargestFragment(const ir::KernelLaunchNode* launch) {
  int64_t elements = 0;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    auto shape = alloc != nullptr ? ir::AsInts(alloc->buffer->shape) : std::nullopt;
    if (shape) elements = std::max(elements, layout::Product(*shape));
    return true;
  });
  return elements;
}

bool Reduces(const ir::KernelLaunchNode* launch) {
  return ir::HasStmt(launch->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kReduce; });
}

}  // namespace tilelang::tiling
