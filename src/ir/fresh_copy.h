// Copies of statements that can stand beside each other.
#ifndef TILELANG_IR_FRESH_COPY_H_
#define TILELANG_IR_FRESH_COPY_H_

#include "ir/visitor.h"

namespace tilelang::ir {

// Copies statements; variables and buffers that they define are new in each copy.
class FreshCopy : public StmtMutator {
 public:
  using StmtMutator::Rewrite;

  // In the copy the variable has this value.
  void Set(const Var& var, const Expr& value) { values_.Set(var, value); }

  Expr Rewrite(const VarNode* op) override;
  Stmt Rewrite(const BindNode* op) override;
  Stmt Rewrite(const ForNode* op) override;
  Stmt Rewrite(const ParallelForNode* op) override;
  Stmt Rewrite(const AllocNode* op) override;

 protected:
  Buffer MutateBuffer(const Buffer& buffer) override;

 private:
  Var Fresh(const Var& var);

  Map<Var, Expr> values_;
  Map<Buffer, Buffer> buffers_;
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_FRESH_COPY_H_
