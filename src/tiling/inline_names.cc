#include "tiling/inline_names.h"

#include <tvm/ffi/cast.h>

#include "ir/visitor.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int kLargestIndex = 64;  // of a value in place of its name

bool IsIndex(const Expr& value) {
  int parts = 0;
  bool simple = ir::IsInt(value.dtype());
  ir::WalkExprs(value, [&](const Expr& e) {
    simple = simple && ++parts <= kLargestIndex && e->kind != ir::ExprKind::kLoad &&
             e->kind != ir::ExprKind::kCall;
    return simple;
  });
  return simple;
}

class NameInliner : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    bool gemms =
        FindPlainGemm(op, Operands::kComputed).loop != nullptr || FindGemmChain(op).loop != nullptr;
    return gemms ? StmtMutator::Rewrite(op) : ir::ffi::GetRef<Stmt>(op);
  }

  Stmt Rewrite(const ir::BindNode* op) override {
    Expr value = Mutate(op->value);
    if (!IsIndex(value)) return StmtMutator::Rewrite(op);
    values_.Set(op->var, value);
    return ir::Seq({}, op->span);
  }

  Expr Mutate(const Expr& e) override { return values_.empty() ? e : ir::Substitute(e, values_); }

 private:
  ir::Map<ir::Var, Expr> values_;
};

}  // namespace

ir::Func InlineNames(const ir::Func& func) {
  return func.WithBody(NameInliner().MutateStmt(func->body));
}

}  // namespace tilelang::tiling
