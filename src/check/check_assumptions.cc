#include "check/check_assumptions.h"

#include <tvm/ffi/cast.h>

#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

class Inserter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  ir::Stmt Rewrite(const ir::AssumeNode* op) override {
    std::string fact = "T.assume(" + ir::Print(op->condition) + ") does not hold";
    ir::Stmt test = ir::Assert(op->condition, fact, op->span);
    return ir::MakeSeq({test, tvm::ffi::GetRef<ir::Stmt>(op)}, op->span);
  }
};

}  // namespace

ir::Func CheckAssumptions(const ir::Func& func) {
  ir::Stmt body = Inserter().MutateStmt(func->body);
  return ir::Func(func->name, func->params, body, func->attrs, func->span);
}

}  // namespace tilelang::check
