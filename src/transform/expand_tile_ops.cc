#include "transform/expand_tile_ops.h"

#include "ir/visitor.h"
#include "op/copy.h"
#include "op/copy_tma.h"
#include "op/copy_tmem.h"
#include "op/copy_tmem_cp.h"
#include "op/reduce.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;
namespace {

class Expander : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  ir::Stmt Rewrite(const ir::CopyNode* op) override {
    bool by_hardware = op::IsTmemCopy(op) || op::IsTmemCp(op) || op::IsTmaCopy(op);
    return by_hardware ? StmtMutator::Rewrite(op) : op::ExpandCopy(op);
  }
  ir::Stmt Rewrite(const ir::FillNode* op) override { return op::ExpandFill(op); }
  ir::Stmt Rewrite(const ir::ReduceNode* op) override {
    ir::Stmt staged = op::StageReduceOperands(op);
    return staged.get() == op ? staged : MutateStmt(staged);
  }
  // Software pipelining runs iterations in order.
  ir::Stmt Rewrite(const ir::ForNode* op) override {
    ir::Stmt body = MutateStmt(op->body);
    ir::ForKind kind = op->Kind() == ir::ForKind::kPipelined ? ir::ForKind::kSerial : op->Kind();
    return ir::For(op->var, op->min, op->extent, kind, body, op->annotations, op->span);
  }
};

}  // namespace

ir::Func ExpandTileOps(const ir::Func& func, const Target& target) {
  return func.WithBody(Expander().MutateStmt(func->body));
}

}  // namespace tilelang::transform
