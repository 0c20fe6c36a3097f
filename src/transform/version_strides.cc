#include "transform/version_strides.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "analysis/scoped_mutator.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/fresh_copy.h"
#include "ir/intrinsics.h"
#include "ir/remark.h"
#include "transform/row_lengths.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether the launch can be written twice.
bool CanBeCopied(const ir::KernelLaunchNode* launch) {
  if (launch->attrs.count("layout_map") != 0) return false;
  bool fits = true;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    const auto* alloc = s.as<ir::AllocNode>();
    const auto* barrier = s.as<ir::BarrierNode>();
    // All blocks take the same of the two, so that a barrier of the block's threads may be there
    // twice.
    fits &= barrier == nullptr || barrier->Kind() == ir::BarrierKind::kBlock ||
            barrier->Kind() == ir::BarrierKind::kNamed || barrier->Kind() == ir::BarrierKind::kWarp;
    fits &= s->kind != ir::StmtKind::kGemm;
    fits &= loop == nullptr || loop->Kind() != ir::ForKind::kPipelined;
    fits &= alloc == nullptr || alloc->buffer.IsFragment() || alloc->buffer.IsLocal() ||
            alloc->buffer->scope == "shared" || alloc->buffer->scope == "shared.dyn";
    return fits;
  });
  return fits && !ir::HasCall(launch->body, [](const ir::CallNode* call) {
           return call->intrinsic == nullptr || call->Is(ir::Builtin::kBlockVote) ||
                  call->Is(ir::Builtin::kExtern);
         });
}

// Makes threads copy rows that no tensor map can describe, because a tensor map is made for every
// launch.
class ByThreads : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    return ir::Copy::Saying(op, [](ir::CopyOptionsNode* options) { options->disable_tma = true; });
  }
};

// A body in which the rows are known to be whole, or not to be: what also asks is decided.
class Decided : public analysis::ScopedMutator {
 public:
  explicit Decided(const Expr& condition) { analyzer_.Assume(condition); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::IfNode* op) override {
    if (analyzer_.CanProve(op->condition)) return MutateStmt(op->then_case);
    if (!analyzer_.CanProve(ir::Not(op->condition))) return ScopedMutator::Rewrite(op);
    return op->else_case.defined() ? MutateStmt(op->else_case) : ir::MakeSeq({}, op->span);
  }
};

class Versioner : public analysis::ScopedMutator {
 public:
  explicit Versioner(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    auto rows = RowsOfUnknownLength(op, &analyzer_);
    if (!rows || !CanBeCopied(op)) return ffi::GetRef<Stmt>(op);
    const Expr& whole = rows->whole;
    Remark(op->span, "vectorize",
           "rows of " + rows->tensors + " are accessed by vectors where " + rows->text +
               ", and element by element otherwise, so the kernel has both versions. A T.assume "
               "that decides this removes one of them");
    Stmt vectors = ByThreads().MutateStmt(Decided(whole).MutateStmt(op->body));
    Stmt others = ir::FreshCopy().MutateStmt(Decided(ir::Not(whole)).MutateStmt(op->body));
    Stmt body = ir::If(whole, vectors, others, op->span);
    return ir::WithBody(op, body);
  }
};

}  // namespace

ir::Func VersionStrides(const ir::Func& func) {
  return func.WithBody(Versioner(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
