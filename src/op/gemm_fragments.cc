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
                          const layout::WarpGrid& grid, const ThreadRange& threads,
                          bool transposed) {
  auto [m, n] = MatrixExtents(MatrixC(op), op->span);
  Fragment c = transposed ? layout::MmaFragmentC(atom, grid, n, m).Transpose({1, 0})
                          : layout::MmaFragmentC(atom, grid, m, n);
  GemmFragments wanted{c.BindThreads(threads.begin), {}, {}};
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

}  // namespace tilelang::op
