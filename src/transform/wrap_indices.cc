#include "transform/wrap_indices.h"

#include "analysis/scoped_mutator.h"

namespace tilelang::transform {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

class Wrapper : public analysis::ScopedMutator {
 public:
  explicit Wrapper(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;

  Expr Rewrite(const ir::LoadNode* op) override {
    return ir::Load(op->buffer, Wrapped(op->buffer, op->indices), op->span);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    return ir::Store(op->buffer, Wrapped(op->buffer, op->indices), Mutate(op->value), op->span);
  }

 private:
  Array<Expr> Wrapped(const Buffer& buffer, const Array<Expr>& indices) {
    std::vector<Expr> result;
    for (size_t d = 0; d < indices.size(); ++d) {
      Expr index = Mutate(indices[d]);
      // Further below 0 than the dimension is long: an error, which names the index as it is.
      if (d < buffer->shape.size() && IsNegative(index)) {
        Expr wrapped = index + ir::CastTo(index.dtype(), buffer->shape[d]);
        if (analyzer_.ConstBounds(wrapped).hi >= 0) index = wrapped;
      }
      result.push_back(index);
    }
    return Array<Expr>(result.begin(), result.end());
  }

  bool IsNegative(const Expr& index) {
    return ir::IsIntegral(index.dtype()) && analyzer_.ConstBounds(index).hi < 0;
  }
};

}  // namespace

ir::Func WrapIndices(const ir::Func& func) {
  return func.WithBody(Wrapper(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
