#include "op/copy_scales.h"

#include "ir/error.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/matrix_descriptor.h"
#include "op/shared_layout.h"
#include "op/tmem.h"

namespace tilelang::op {

namespace {

constexpr int64_t kRowGroupBytes = 128;  // of eight rows of 16 bytes, for the descriptor

int64_t ElementsOf(const Region& region) { return layout::Product(*ir::AsInts(region->extents)); }

class ScaleCopyInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "tcgen05.cp"; }
  Engine engine() const override { return Engine::kTcgen05; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kCopy && IsScaleCopy(AsCopy(op));
  }
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    if (level != InferLevel::kStrict) return;
    SetDefaultRole(AsCopy(op)->dst->buffer, op->span, ctx);
    InferScaleOrder(AsCopy(op)->src->buffer, "T.tcgen05_cp_warpx4", op->span, ctx);
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    return {TilePlan(ffi::make_object<TilePlanNode>(this, ctx->threads)), ""};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    const ir::CopyNode* copy = AsCopy(op);
    int64_t words = ElementsOf(copy->src);
    ScaleAtoms atoms(copy->src, words, copy->dst->buffer, copy->options->in_pairs, op->span,
                     lowering);
    atoms.Bind("desc_scales", stmts);
    Expr column = TileOf(copy->dst, op->span, lowering->ctx).column;
    int64_t bytes = words * ir::Bytes(copy->src->buffer->dtype);
    for (int64_t at = 0; at < bytes; at += kScaleAtomBytes) {
      Expr address = column + U32(at / kScaleAtomBytes * kScaleAtomColumns);
      stmts->push_back(atoms.Copy(at, address));
    }
  }
};

}  // namespace

void InferScaleOrder(const Buffer& factors, const std::string& what, const Span& span,
                     Context* ctx) {
  Layout wanted = Layout::RowMajor(StaticShape(factors));
  auto known = ctx->layouts->GetLayout(factors);
  if (!known) {
    ctx->layouts->Set(factors, wanted, span);
    return;
  }
  if ((*known).SameMap(wanted)) return;
  Span user = ctx->layouts->UserOf(factors);
  std::string remedy = "leave the layout to the compiler";
  if (user.defined()) {
    remedy = "line " + std::to_string(user->line) +
             " uses the buffer as another kind of operand; copy it to a second one";
  }
  TL_USER_ERROR(kLayout, span,
                what << ": the scale factors " << std::string(factors->name) << " have layout "
                     << (*known)->ToString() << ", but are read in row-major order; " << remedy);
}

bool IsScaleCopy(const ir::CopyNode* op) {
  return op->options->call_kind() == ir::CopyCall::kScaleFactors;
}

const TileInstruction* ScaleCopy() {
  static const ScaleCopyInstruction instruction;
  return &instruction;
}

ScaleAtoms::ScaleAtoms(const Region& region, int64_t part, const Buffer& columns, bool in_pairs,
                       const Span& span, Lowering* lowering)
    : span_(span) {
  const Buffer& buffer = region->buffer;
  Buffer physical = lowering->buffers->Get(buffer);
  Array<Expr> corner;
  for (const Expr& min : region->mins) corner.push_back(lowering->scalar->Mutate(min));
  start_ =
      ir::AddressOf(physical, {lowering->buffers->Offset(buffer, corner, lowering->ctx->analyzer)});
  function_ = std::string("tcgen05_cp<tl::TmemCpShape::k32x128b") + (in_pairs ? ", 2>" : ">");
  attrs_.Set("reads", Array<Buffer>{physical});
  attrs_.Set("extents", Array<int64_t>{part});
  attrs_.Set("async", true);
  attrs_.Set("tmem", Array<Array<int64_t>>{TmemBox(0, layout::kTmemLanes, kScaleAtomColumns,
                                                   /*writes=*/true, columns, *lowering->ctx)});
}

void ScaleAtoms::Bind(const char* name, std::vector<Stmt>* stmts) {
  layout::MatrixOperand operand;
  operand.stride_bytes = kRowGroupBytes;
  Var descriptor(name, ir::dtypes::kUInt64, span_);
  stmts->push_back(
      ir::Bind(descriptor, DescriptorAt(start_, operand, DescriptorFormat::kTcgen05), span_));
  descriptor_ = descriptor;
}

Stmt ScaleAtoms::Copy(int64_t bytes, const Expr& address) const {
  Expr from = descriptor_ + U64(static_cast<uint64_t>(bytes >> 4));
  return DeviceEffect("tcgen_05_cp.h", function_, {address, from}, span_, attrs_);
}

}  // namespace tilelang::op
