#include "transform/promote_accumulators.h"

#include <tvm/ffi/cast.h>

#include <vector>

#include "ir/tile_op.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

int64_t PromoteEvery(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  auto given = gemm != nullptr ? gemm->annotations.Get(ir::kPromoteEvery) : std::nullopt;
  return given ? (*given).cast<int64_t>() : 0;
}

// `count` of the dimension from `first` on; the region itself where that is all of it.
Region SliceOf(const Region& region, size_t dim, int64_t first, int64_t count) {
  if (ir::IsConst(region->extents[dim], count)) return region;
  Array<Expr> mins = region->mins;
  Array<Expr> extents = region->extents;
  mins.Set(static_cast<int64_t>(dim), mins[dim] + ir::Const(mins[dim].dtype(), first));
  extents.Set(static_cast<int64_t>(dim), ir::Const(extents[dim].dtype(), count));
  return Region(region->buffer, mins, extents);
}

class Promoter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      int64_t step = PromoteEvery(s);
      if (step > 0) {
        Expand(s.as<ir::GemmNode>(), step, &stmts);
      } else {
        stmts.push_back(MutateStmt(s));
      }
    }
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    int64_t step = PromoteEvery(tvm::ffi::GetRef<Stmt>(op));
    if (step == 0) return StmtMutator::Rewrite(op);
    std::vector<Stmt> stmts;
    Expand(op, step, &stmts);
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  static void Expand(const ir::GemmNode* op, int64_t step, std::vector<Stmt>* stmts) {
    const Region& sum = op->result();
    const Buffer& c = sum->buffer;
    size_t rank = sum->extents.size();
    Buffer partial(ir::String(std::string(c->name) + "_partial"), c->dtype,
                   {sum->extents[rank - 2], sum->extents[rank - 1]}, {}, "local.fragment", {},
                   op->span);
    stmts->push_back(ir::Alloc(partial, op->span));
    bool overwrites = ir::IsTrue(op->clear_accum);
    if (!overwrites && !ir::IsConst(op->clear_accum, 0)) {
      Stmt clear = ir::Fill(sum, ir::FloatImm(c->dtype, 0), op->span);
      stmts->push_back(ir::If(op->clear_accum, clear, Stmt(), op->span));
    }
    ir::Map<ir::String, ir::Any> annotations = op->annotations;
    annotations.erase(ir::kPromoteEvery);
    Expr whole = ir::IntImm(ir::dtypes::kBool, 1);
    int64_t k = *ir::AsInt(op->Depth());
    for (int64_t first = 0; first < k; first += step) {
      auto part = op->WithRegions([&](const ir::GemmOperandNode* operand) {
        if (operand->IsResult()) return Region::Whole(partial);
        auto dim = operand->DimAlong(ir::GemmDim::kK);
        return dim ? SliceOf(operand->region, *dim, first, step) : operand->region;
      });
      stmts->push_back(ir::Gemm(part, whole, Expr(), annotations, op->span));
      stmts->push_back(Add(partial, sum, overwrites && first == 0, op->span));
    }
  }

  // c += partial, or c = partial.
  static Stmt Add(const Buffer& partial, const Region& c, bool overwrites, const ir::Span& span) {
    ir::Var row("i", ir::dtypes::kInt32, span);
    ir::Var column("j", ir::dtypes::kInt32, span);
    Array<Expr> at = c->mins;
    auto rank = static_cast<int64_t>(at.size());
    at.Set(rank - 2, at[rank - 2] + row);
    at.Set(rank - 1, at[rank - 1] + column);
    Expr value = ir::Load(partial, {row, column});
    if (!overwrites) value = ir::Load(c->buffer, at) + value;
    return ir::ParallelFor({row, column}, {c->extents[rank - 2], c->extents[rank - 1]},
                           ir::Store(c->buffer, at, value, span), {}, span);
  }
};

}  // namespace

ir::Func PromoteAccumulators(const ir::Func& func) {
  return func.WithBody(Promoter().MutateStmt(func->body));
}

}  // namespace tilelang::transform
