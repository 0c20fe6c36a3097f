#include "op/copy_tmem_cp.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/printer.h"
#include "layout/smem_layout.h"
#include "layout/symbolic.h"
#include "layout/tmem_cp.h"
#include "op/copy.h"
#include "op/copy_scales.h"
#include "op/copy_tmem.h"
#include "op/effect.h"
#include "op/matrix_descriptor.h"
#include "op/tmem.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

constexpr int64_t kGroupRows = 8;  // rows of a swizzle pattern

// Splits a corner into the part that is known now and the part that is known when the kernel runs.
struct Corner {
  Coord known;
  std::vector<Expr> variable;
};

Corner CornerOf(const Region& region) {
  Corner corner;
  for (const Expr& min : region->mins) {
    auto value = ir::AsInt(min);
    corner.known.push_back(value.value_or(0));
    corner.variable.push_back(value ? ir::Const(min.dtype(), 0) : min);
  }
  return corner;
}

// Returns the last two dimensions of a buffer's layout, at the first element of all other
// dimensions.
Layout MatrixOf(const Layout& layout) {
  Coord extents = layout->Extents();
  Coord matrix(extents.end() - 2, extents.end());
  std::fill(extents.begin(), extents.end() - 2, 1);
  return layout.Slice(Coord(extents.size(), 0), extents).Reshape(matrix);
}

// Returns why the corner does not fit. A corner that is variable in the matrix must begin where the
// swizzle pattern begins: the elements then have the same distances from it wherever it is.
std::string VariableCornerObstacle(const Region& region, const layout::MatrixOperand& operand,
                                   Context* ctx) {
  size_t rank = region->mins.size();
  int64_t atom = operand.swizzle_bytes * 8 / region->buffer->dtype.bits;
  for (auto [dim, step] : {std::pair(rank - 2, kGroupRows), std::pair(rank - 1, atom)}) {
    const Expr& min = region->mins[dim];
    if (ir::AsInt(min) || ctx->analyzer->Divides(min, step)) continue;
    return "index " + ir::Print(min) + " of " + std::string(region->buffer->name) +
           " is not known to be a multiple of " + std::to_string(step) + ", where its swizzle " +
           "pattern begins";
  }
  return "";
}

layout::TmemCpPlan PlanCp(const ir::CopyNode* op, const Layout& shared, Context* ctx) {
  layout::TmemCpPlan plan;
  if (shared->IsTable() || shared->IsFlat()) {
    plan.reason = "shared layout " + shared->ToString() + " is no shape:stride layout";
    return plan;
  }
  TmemTile tile = TileOf(op->dst, op->span, ctx);
  Coord known = CornerOf(op->src).known;
  plan = layout::PlanTmemCp(tile.layout, MatrixOf(shared), Coord(known.end() - 2, known.end()));
  if (plan.reason.empty()) plan.reason = VariableCornerObstacle(op->src, plan.operand, ctx);
  return plan;
}

Layout SharedLayout(const ir::CopyNode* op, const Context& ctx) {
  const Buffer& shared = op->src->buffer;
  auto layout = ctx.layouts->GetLayout(shared);
  return layout ? *layout : Layout::RowMajor(StaticShape(shared));
}

// Gives the tensor memory the layout of its default role. Gives the shared buffer, if it has no
// layout yet, the widest swizzled layout that tcgen05.cp reads and that its other users accept.
// Gives no layout if none fits.
void InferTmemCp(const ir::CopyNode* op, InferLevel level, Context* ctx) {
  if (level == InferLevel::kStrict) return;
  SetDefaultRole(op->dst->buffer, op->span, ctx);
  const Buffer& shared = op->src->buffer;
  if (ctx->layouts->Has(shared)) return;
  Coord shape = StaticShape(shared);
  int64_t bits = shared->dtype.bits;
  for (int64_t bytes : layout::SwizzleWidths(shape, bits)) {
    Layout layout = layout::SwizzledLayout(shape, bits, bytes);
    if (!PlanCp(op, layout, ctx).reason.empty() || !ctx->accepted(shared, layout)) continue;
    ctx->layouts->Set(shared, layout, op->span);
    return;
  }
}

// Plans how tcgen05.cp copies in the layouts that the buffers have.
layout::TmemCpPlan PlanInLayouts(const ir::CopyNode* op, Context* ctx) {
  layout::TmemCpPlan plan;
  if (ctx->threads.begin % kWarp != 0 || ctx->threads.count % kWarp != 0) {
    plan.reason = "the threads that reach it are not whole warps";
    return plan;
  }
  plan = PlanCp(op, SharedLayout(op, *ctx), ctx);
  const Buffer& shared = op->src->buffer;
  if (plan.reason.empty() || ctx->layouts->Has(shared)) return plan;
  // No swizzled layout is possible, so the buffer is row-major.
  Coord shape = StaticShape(shared);
  int64_t bits = shared->dtype.bits;
  int64_t widest = layout::WidestSwizzle(shape, bits);
  if (widest == 0) {
    plan.reason = "rows of shared buffer " + std::string(shared->name) +
                  " are not a multiple of 16 bytes, or their number is not a multiple of 8";
    return plan;
  }
  plan.reason = PlanCp(op, layout::SwizzledLayout(shape, bits, widest), ctx).reason;
  if (!plan.reason.empty()) return plan;
  plan.reason =
      "its layouts of " + std::string(shared->name) + " do not serve the buffer's other users";
  return plan;
}

void IssueTmemCp(const ir::CopyNode* op, const layout::TmemCpPlan& plan, Lowering* lowering,
                 std::vector<Stmt>* stmts) {
  Context* ctx = lowering->ctx;
  const Buffer& shared = op->src->buffer;
  Layout layout = SharedLayout(op, *ctx);
  Corner corner = CornerOf(op->src);
  for (Expr& index : corner.variable) index = ctx->analyzer->Simplify(index);
  Expr offset = ctx->analyzer->Simplify(layout::ForwardExpr(layout, corner.variable));
  // The plan counts from the beginning of the matrix.
  std::fill(corner.known.end() - 2, corner.known.end(), 0);
  int64_t matrix = layout::PlainByteOffset(layout, shared->dtype.bits, corner.known);
  Var descriptor(String("desc_" + std::string(shared->name)), ir::dtypes::kUInt64, op->span);
  Buffer physical = lowering->buffers->Get(shared);
  stmts->push_back(ir::Bind(
      descriptor,
      DescriptorAt(ir::AddressOf(physical, {offset}), plan.operand, DescriptorFormat::kTcgen05),
      op->span));
  TmemTile tile = TileOf(op->dst, op->span, ctx);
  Map<String, Any> attrs = ReadsOfOperands({op->src}, *lowering);
  attrs.Set("async", true);
  for (const layout::TmemCpInstruction& inst : plan.instructions) {
    int64_t columns = layout::GetTmemCpAtom(inst.shape).units * 4;
    attrs.Set("tmem", Array<Array<int64_t>>{TmemBox(0, layout::kTmemLanes, columns, /*writes=*/true,
                                                    op->dst->buffer, *ctx)});
    std::string name =
        std::string("tcgen05_cp<tl::TmemCpShape::k") + layout::GetTmemCpAtom(inst.shape).name + ">";
    Expr from = descriptor + U64(static_cast<uint64_t>((matrix + inst.bytes) >> 4));
    stmts->push_back(DeviceEffect("tcgen_05_cp.h", name, {tile.column + U32(inst.column), from},
                                  op->span, attrs));
  }
}

class Tcgen05CpInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "tcgen05.cp"; }
  Engine engine() const override { return Engine::kTcgen05; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kCopy && MovesSharedToTmem(AsCopy(op));
  }
  std::string Obstacle(const ir::TileOpNode* op, Context* ctx) const override {
    return TmemCpObstacle(AsCopy(op));
  }
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    InferTmemCp(AsCopy(op), level, ctx);
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    layout::TmemCpPlan cp = PlanInLayouts(AsCopy(op), ctx);
    if (!cp.reason.empty()) return {TilePlan(), cp.reason};
    auto plan = ffi::make_object<TmemCpPlanNode>(this, ctx->threads);
    plan->cp = std::move(cp);
    return {TilePlan(std::move(plan)), ""};
  }
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    return {ThroughFragment(AsCopy(op)), "goes through registers: tcgen05.cp cannot do it"};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    IssueTmemCp(AsCopy(op), static_cast<const TmemCpPlanNode*>(TilePlanOf(op))->cp, lowering,
                stmts);
  }
};

}  // namespace

const TileInstruction* Tcgen05Cp() {
  static const Tcgen05CpInstruction instruction;
  return &instruction;
}

bool MovesSharedToTmem(const ir::CopyNode* op) {
  return op->src->buffer.IsShared() && op->dst->buffer.IsTmem() && !IsScaleCopy(op);
}

std::string TmemCpObstacle(const ir::CopyNode* op) {
  const Buffer& shared = op->src->buffer;
  if (shared->dtype != op->dst->buffer->dtype) {
    return "it converts " + ir::ToString(shared->dtype) + " to " +
           ir::ToString(op->dst->buffer->dtype);
  }
  MovingDims from = Moving(op->src);
  MovingDims to = Moving(op->dst);
  size_t rank = shared->shape.size();
  if (from.dims.size() != 2 || to.dims.size() != 2 || from.dims[0] + 2 != rank ||
      from.dims[1] + 1 != rank) {
    return "it does not move one matrix, in the last two dimensions of " +
           std::string(shared->name);
  }
  auto extents = ir::AsInts(from.extents);
  if (!extents || extents != ir::AsInts(to.extents)) return "the two regions differ in shape";
  return "";
}

}  // namespace tilelang::op
