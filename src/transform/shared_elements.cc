#include "transform/shared_elements.h"

#include <string>

#include "ir/tile_op.h"
#include "ir/visitor.h"
#include "op/scratch.h"

namespace tilelang::transform {

using ir::Buffer;
using ir::Expr;

namespace {

class ElementSharer : public ir::StmtMutator {
 public:
  ElementSharer(const std::function<bool(const ir::LoadNode*)>& is_shared,
                std::vector<ir::Stmt>* stmts)
      : is_shared_(is_shared), stmts_(stmts) {}
  using StmtMutator::Rewrite;

  Expr Rewrite(const ir::LoadNode* op) override {
    if (!is_shared_(op)) return StmtMutator::Rewrite(op);
    ir::Array<Expr> ones(op->indices.size(), Expr(1));
    ir::Array<Expr> zeros(op->indices.size(), Expr(0));
    Buffer shared(std::string(op->buffer->name) + "_shared", op->buffer->dtype, ones, {},
                  "shared.dyn", op::ScratchAttrs(), op->span);
    stmts_->push_back(ir::Alloc(shared, op->span));
    ir::Region element(op->buffer, op->indices, ones);
    stmts_->push_back(ir::Copy(element, ir::Region::Whole(shared), op->span));
    return ir::Load(shared, zeros, op->span);
  }

 private:
  const std::function<bool(const ir::LoadNode*)>& is_shared_;
  std::vector<ir::Stmt>* stmts_;
};

}  // namespace

SharedElements ShareElements(const Expr& e,
                             const std::function<bool(const ir::LoadNode*)>& is_shared) {
  SharedElements result;
  result.value = ElementSharer(is_shared, &result.stmts).Mutate(e);
  return result;
}

}  // namespace tilelang::transform
