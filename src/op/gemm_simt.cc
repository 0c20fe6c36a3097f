#include "op/gemm_simt.h"

#include "op/copy.h"
#include "op/effect.h"
#include "op/gemm_operands.h"

namespace tilelang::op {

namespace {

// Returns an element of the matrix in the last two dimensions of the region.
Expr ElementOf(const Region& region, bool transposed, const Expr& row, const Expr& column) {
  Array<Expr> indices = region->mins;
  size_t rank = indices.size();
  const Expr& first = transposed ? column : row;
  const Expr& second = transposed ? row : column;
  indices.Set(rank - 2, indices[rank - 2] + ir::CastTo(indices[rank - 2].dtype(), first));
  indices.Set(rank - 1, indices[rank - 1] + ir::CastTo(indices[rank - 1].dtype(), second));
  return ir::Load(region->buffer, indices);
}

// Copies a fragment to shared memory, because each element is with one thread and other threads
// must read it.
Region Reachable(const Region& region, std::vector<Stmt>* stmts, const Span& span) {
  const Buffer& buffer = region->buffer;
  if (!buffer.IsFragment()) return region;
  Buffer shared(String(std::string(buffer->name) + "_shared"), buffer->dtype, region->extents, {},
                "shared.dyn", {}, span);
  Region whole = Region::Whole(shared);
  stmts->push_back(ir::Alloc(shared, span));
  stmts->push_back(ExpandCopy(ir::Copy(region, whole, span).as<ir::CopyNode>()));
  return whole;
}

}  // namespace

bool CanBeByThreads(const ir::GemmNode* op) {
  auto reachable = [](const Buffer& buffer) {
    return buffer.IsShared() || buffer.IsGlobal() || buffer.IsFragment();
  };
  // A tensor core multiplies an A like this once the program has copied it to shared memory.
  if (MatrixA(op)->buffer.IsFragment() && IsTransposedA(op)) return false;
  return !op->IsSparse() && reachable(MatrixA(op)->buffer) && reachable(MatrixB(op)->buffer) &&
         MatrixC(op)->buffer.IsFragment() && !op->mbar.defined() &&
         op->annotations.count("is_tcgen05") == 0;
}

Stmt GemmByThreads(const ir::GemmNode* op) {
  const Span& span = op->span;
  Var i("i", ir::dtypes::kInt32, span);
  Var j("j", ir::dtypes::kInt32, span);
  Var k("k", ir::dtypes::kInt32, span);
  ir::DType type = MatrixC(op)->buffer->dtype;
  Expr c = ElementOf(MatrixC(op), false, i, j);
  const auto* element = c.as<ir::LoadNode>();
  auto store = [&](const Expr& value) {
    return ir::Store(element->buffer, element->indices, value, span);
  };
  std::vector<Stmt> staged;
  Region a = Reachable(MatrixA(op), &staged, span);
  Region b = Reachable(MatrixB(op), &staged, span);
  std::vector<Stmt> stmts;
  if (ir::AsInt(op->clear_accum) != 0) {
    Expr zero = ir::CastTo(type, ir::Const(ir::dtypes::kInt32, 0));
    stmts.push_back(store(ir::Select(op->clear_accum, zero, c)));
  }
  Expr product = ir::CastTo(type, ElementOf(a, IsTransposedA(op), i, k)) *
                 ir::CastTo(type, ElementOf(b, IsTransposedB(op), k, j));
  size_t rank = MatrixA(op)->extents.size();
  const Expr& depth = MatrixA(op)->extents[IsTransposedA(op) ? rank - 2 : rank - 1];
  stmts.push_back(ir::For(k, 0, depth, ir::ForKind::kSerial, store(c + product), {}, span));
  size_t c_rank = MatrixC(op)->extents.size();
  staged.push_back(
      ir::ParallelFor({i, j}, {MatrixC(op)->extents[c_rank - 2], MatrixC(op)->extents[c_rank - 1]},
                      Sequence(stmts, span), {}, span));
  return Sequence(staged, span);
}

}  // namespace tilelang::op
