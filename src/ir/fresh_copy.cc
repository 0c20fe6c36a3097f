#include "ir/fresh_copy.h"

#include <tvm/ffi/cast.h>

#include "ir/tmem_views.h"

namespace tilelang::ir {

Var FreshCopy::Fresh(const Var& var) {
  Var fresh(var->name, var.dtype(), var->span);
  values_.Set(var, fresh);
  return fresh;
}

Expr FreshCopy::Rewrite(const VarNode* op) {
  auto it = values_.find(ffi::GetRef<Var>(op));
  return it == values_.end() ? Expr(ffi::GetRef<Var>(op)) : (*it).second;
}

Stmt FreshCopy::Rewrite(const BindNode* op) {
  Expr value = Mutate(op->value);
  return Bind(Fresh(op->var), value, op->span);
}

Stmt FreshCopy::Rewrite(const ForNode* op) {
  Expr min = Mutate(op->min);
  Expr extent = Mutate(op->extent);
  Var var = Fresh(op->var);
  return For(var, min, extent, op->Kind(), MutateStmt(op->body), op->annotations, op->span);
}

Stmt FreshCopy::Rewrite(const ParallelForNode* op) {
  Array<Expr> extents = MutateExprs(op->extents);
  Array<Var> vars;
  for (const Var& var : op->vars) vars.push_back(Fresh(var));
  return ParallelFor(vars, extents, MutateStmt(op->body), op->annotations, op->span);
}

Stmt FreshCopy::Rewrite(const AllocNode* op) {
  const Buffer& b = op->buffer;
  Map<String, Any> attrs = b->attrs;
  if (auto viewed = attrs.Get(kViewOf)) attrs.Set(kViewOf, MutateBuffer((*viewed).cast<Buffer>()));
  if (auto init = attrs.Get("init")) attrs.Set("init", Mutate((*init).cast<Expr>()));
  Buffer fresh(b->name, b->dtype, b->shape, b->strides, b->scope, attrs, b->span);
  buffers_.Set(b, fresh);
  return Alloc(fresh, op->span);
}

Buffer FreshCopy::MutateBuffer(const Buffer& buffer) {
  auto it = buffers_.find(buffer);
  return it == buffers_.end() ? buffer : (*it).second;
}

}  // namespace tilelang::ir
