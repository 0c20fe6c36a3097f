#include "op/gemm_fragments.h"

#include "op/effect.h"
#include "op/gemm_operands.h"
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

void OfferFragments(const ir::GemmNode* op, const GemmFragments& wanted, Context* ctx) {
  Offer(MatrixC(op), wanted.c, op->span, ctx);
  if (wanted.a) Offer(MatrixA(op), *wanted.a, op->span, ctx);
}

bool HoldFragments(const ir::GemmNode* op, const GemmFragments& wanted, Context* ctx) {
  return Holds(MatrixC(op), wanted.c, ctx) && (!wanted.a || Holds(MatrixA(op), *wanted.a, ctx));
}

Alternative OnFragmentsOf(const TileInstruction* instruction, const ir::GemmNode* op,
                          const GemmFragments& wanted, Context* ctx) {
  std::vector<Stmt> stmts;
  Region a = MatrixA(op);
  Region c = Twin(MatrixC(op), wanted.c, ctx, &stmts);
  if (!ir::IsTrue(op->clear_accum)) Relayout(MatrixC(op), c, op->span, ctx, &stmts);
  if (wanted.a && !Holds(a, *wanted.a, ctx)) {
    a = Twin(MatrixA(op), *wanted.a, ctx, &stmts);
    Relayout(MatrixA(op), a, op->span, ctx, &stmts);
  }
  ir::Gemm inner(op, op->WithRegions([&](const ir::GemmOperandNode* operand) {
    if (operand->IsResult()) return c;
    return operand->operand_kind() == ir::GemmOperandKind::kA ? a : operand->region;
  }));
  stmts.push_back(WithPlanOf(instruction, inner, ctx));
  Relayout(c, MatrixC(op), op->span, ctx, &stmts);
  return {Sequence(stmts, op->span), "", /*needs_layouts=*/false};
}

}  // namespace tilelang::op
