#include "op/gemm_fragments.h"

#include "op/effect.h"
#include "op/gemm_operands.h"
#include "op/matrix_descriptor.h"
#include "op/relayout.h"

namespace tilelang::op {

namespace {

void Offer(const Region& region, const Fragment& wanted, const Span& span, Context* ctx) {
  if (!region.IsWhole() || ctx->layouts->Has(region->buffer)) return;
  ctx->layouts->Set(region->buffer, wanted.Reshape(StaticShape(region->buffer)), span);
}

bool Holds(const Region& region, const Fragment& wanted, Context* ctx) {
  return region.IsWhole() && ctx->layouts->GetFragment(region->buffer)
                                 ->SameMap(wanted.Reshape(StaticShape(region->buffer)));
}

Region Twin(const Region& region, const Fragment& layout, Context* ctx, std::vector<Stmt>* stmts) {
  const Buffer& b = region->buffer;
  Buffer twin(String(std::string(b->name) + "_mma"), b->dtype, region->extents, {},
              "local.fragment", {}, b->span);
  ctx->layouts->Set(twin, layout.Reshape(StaticShape(twin)), b->span);
  stmts->push_back(ir::Alloc(twin, b->span));
  return Region::Whole(twin);
}

}  // namespace

GemmFragments FragmentsOf(const ir::GemmNode* op, const layout::MmaAtom& atom,
                          const layout::WarpGrid& grid, const ThreadRange& threads) {
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  GemmFragments wanted{layout::MmaFragmentC(atom, grid, m, n).BindThreads(threads.begin), {}, {}};
  if (MatrixA(op)->buffer.IsFragment()) {
    int64_t k = *ir::AsInt(op->Depth());
    wanted.a = layout::MmaFragmentA(atom, grid, m, k).BindThreads(threads.begin);
  }
  if (op->IsSparse()) {
    const Region& e = Metadata(op);
    auto [rows, columns] = MatrixExtents(e, op->span);
    wanted.metadata = layout::MmaFragmentMetadata(atom, grid, rows, columns, e->buffer->dtype.bits)
                          .BindThreads(threads.begin);
  }
  return wanted;
}

void OfferFragments(const ir::GemmNode* op, const GemmFragments& wanted, Context* ctx) {
  Offer(MatrixC(op), wanted.c, op->span, ctx);
  if (wanted.a) Offer(MatrixA(op), *wanted.a, op->span, ctx);
  if (wanted.metadata) Offer(Metadata(op), *wanted.metadata, op->span, ctx);
}

bool HoldFragments(const ir::GemmNode* op, const GemmFragments& wanted, Context* ctx) {
  return Holds(MatrixC(op), wanted.c, ctx) && (!wanted.a || Holds(MatrixA(op), *wanted.a, ctx)) &&
         (!wanted.metadata || Holds(Metadata(op), *wanted.metadata, ctx));
}

Alternative OnFragmentsOf(const TileInstruction* instruction, const ir::GemmNode* op,
                          const GemmFragments& wanted, Context* ctx) {
  std::vector<Stmt> stmts;
  auto held = [&](const Region& region, const std::optional<Fragment>& layout) {
    if (!layout || Holds(region, *layout, ctx)) return region;
    Region twin = Twin(region, *layout, ctx, &stmts);
    Relayout(region, twin, op->span, ctx, &stmts);
    return twin;
  };
  Region c = Twin(MatrixC(op), wanted.c, ctx, &stmts);
  if (!ir::IsTrue(op->clear_accum)) Relayout(MatrixC(op), c, op->span, ctx, &stmts);
  ir::Gemm inner(op, op->WithRegions([&](const ir::GemmOperandNode* operand) {
    if (operand->IsResult()) return c;
    if (operand->operand_kind() == ir::GemmOperandKind::kA) return held(operand->region, wanted.a);
    bool is_metadata = operand->operand_kind() == ir::GemmOperandKind::kMetadata;
    return is_metadata ? held(operand->region, wanted.metadata) : operand->region;
  }));
  stmts.push_back(WithPlanOf(instruction, inner, ctx));
  Relayout(c, MatrixC(op), op->span, ctx, &stmts);
  return {Sequence(stmts, op->span), "", /*needs_layouts=*/false};
}

namespace {

// The parts of 16 bits of words of metadata.
Expr PartOfWord(const Region& words, bool transposed, const Expr& row, const Expr& part) {
  Array<Expr> indices = words->mins;
  size_t rank = indices.size();
  auto add = [&](size_t dim, const Expr& e) {
    indices.Set(dim, indices[dim] + ir::CastTo(indices[dim].dtype(), e));
  };
  add(transposed ? rank - 1 : rank - 2, row);
  add(transposed ? rank - 2 : rank - 1, ir::FloorDiv(part, I32(2)));
  Expr word = ir::CastTo(ir::dtypes::kUInt32, ir::Load(words->buffer, indices));
  Expr distance = ir::CastTo(ir::dtypes::kUInt32, ir::FloorMod(part, I32(2))) * U32(16);
  return ir::CastTo(ir::dtypes::kUInt16, ir::MakeBinary(ir::BinaryOp::kShr, word, distance));
}

// Zero, as copies fill what lies outside of a tensor, has no meaning: the first two of each four.
Expr WithMeaning(const Expr& metadata) {
  ir::DType type = metadata.dtype();
  uint64_t first_two = 0x44444444U >> (32 - type.bits);
  return ir::Select(ir::MakeEq(metadata, ir::Const(type, 0)),
                    ir::Const(type, static_cast<int64_t>(first_two)), metadata);
}

}  // namespace

Stmt WithMetadataInRegisters(const ir::GemmNode* op) {
  const ir::GemmOperandNode* given = op->Operand(ir::GemmOperandKind::kMetadata);
  const Region& source = given->region;
  auto [first, second] = MatrixExtents(source, op->span);
  int64_t rows = given->transposed ? second : first;
  int64_t columns = given->transposed ? first : second;
  constexpr int64_t kOf8Bits = 8;
  ir::DType type = source->buffer->dtype;
  bool halves = type.bits == 32 && MatrixA(op)->buffer->dtype.bits != kOf8Bits;
  if (halves) columns *= 2;
  Buffer held(String(std::string(source->buffer->name) + "_frag"),
              halves ? ir::dtypes::kUInt16 : type, {I32(rows), I32(columns)}, {}, "local.fragment",
              {}, op->span);
  Var i("i", ir::dtypes::kInt32, op->span);
  Var j("j", ir::dtypes::kInt32, op->span);
  Expr value;
  if (halves) {
    value = PartOfWord(source, given->transposed, i, j);
  } else {
    Array<Expr> at = source->mins;
    size_t rank = at.size();
    size_t row = given->transposed ? rank - 1 : rank - 2;
    size_t column = given->transposed ? rank - 2 : rank - 1;
    at.Set(row, at[row] + ir::CastTo(at[row].dtype(), i));
    at.Set(column, at[column] + ir::CastTo(at[column].dtype(), j));
    value = ir::Load(source->buffer, at);
  }
  value = WithMeaning(value);
  Array<ir::GemmOperand> operands;
  for (const ir::GemmOperand& operand : op->operands) {
    bool is_metadata = operand.get() == given;
    operands.push_back(is_metadata
                           ? ir::GemmOperand(ir::GemmOperandKind::kMetadata, Region::Whole(held))
                           : operand);
  }
  return Sequence({ir::Alloc(held, op->span),
                   ir::ParallelFor({i, j}, {I32(rows), I32(columns)},
                                   ir::Store(held, {i, j}, value, op->span), {}, op->span),
                   ir::Gemm(op, operands)},
                  op->span);
}

}  // namespace tilelang::op
