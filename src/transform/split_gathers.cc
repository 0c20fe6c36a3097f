#include "transform/split_gathers.h"

#include <vector>

#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

// Returns row `i` of a region, of which row `first` of the buffer is row 0.
ir::Region RowOf(const ir::Region& region, const Expr& first, int64_t i) {
  size_t dim = region->mins.size() - 2;
  Array<Expr> mins = region->mins;
  Array<Expr> extents = region->extents;
  mins.Set(static_cast<int64_t>(dim), i == 0 ? first : first + ir::Const(first.dtype(), i));
  extents.Set(static_cast<int64_t>(dim), ir::Const(extents[dim].dtype(), 1));
  return {region->buffer, mins, extents};
}

class GatherSplitter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (op->rows.empty()) return ir::ffi::GetRef<Stmt>(op);
    std::vector<Stmt> copies;
    const Expr& first = op->dst->mins[op->dst->mins.size() - 2];
    for (size_t i = 0; i < op->rows.size(); ++i) {
      copies.push_back(ir::Copy(op, [&](ir::CopyNode* copy) {
        copy->src = RowOf(op->src, op->rows[i], 0);
        copy->dst = RowOf(op->dst, first, static_cast<int64_t>(i));
        copy->rows = {};
      }));
    }
    return ir::Seq(Array<Stmt>(copies.begin(), copies.end()), op->span);
  }
};

}  // namespace

ir::Func SplitGathers(const ir::Func& func, const Target& target) {
  if (target->has_tma_gather) return func;
  return func.WithBody(GatherSplitter().MutateStmt(func->body));
}

}  // namespace tilelang::transform
