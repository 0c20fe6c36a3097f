#include "op/copy_tmem.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "layout/tmem_copy.h"
#include "op/copy.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/relayout.h"
#include "op/tmem.h"
#include "target/warp.h"

namespace tilelang::op {

using layout::TmemDirection;

namespace {

TmemDirection DirectionOf(const ir::CopyNode* op) {
  return op->src->buffer.IsTmem() ? TmemDirection::kLoad : TmemDirection::kStore;
}
const Region& TmemSide(const ir::CopyNode* op) {
  return op->src->buffer.IsTmem() ? op->src : op->dst;
}
const Region& FragmentSide(const ir::CopyNode* op) {
  return op->src->buffer.IsTmem() ? op->dst : op->src;
}

// Returns the registers that one instruction may use. The threads of the CTA share the registers of
// an SM, in units of 8 per thread. ptxas wants 18 registers beside the registers of the
// instruction.
int64_t MaxRegisters(const Context& ctx) {
  constexpr int64_t kReserve = 18;
  int64_t share = ctx.target->registers_per_sm / ctx.cta_threads / 8 * 8;
  return std::min<int64_t>(share, ctx.target->max_registers_per_thread) - kReserve;
}

layout::TmemCopyOptions OptionsFor(const ir::CopyNode* op, Context* ctx) {
  const ThreadRange& threads = ctx->threads;
  if (!AreWarpgroups(threads)) {
    TL_USER_ERROR(
        kResource, op->span,
        "a copy to or from tensor memory needs whole warpgroups (128 threads, beginning at a "
        "multiple of 128), because each warp accesses a quarter of the lanes. But threads "
            << threads.begin << " to " << threads.begin + threads.count - 1
            << " execute this copy; launch the kernel with threads=128 or a multiple");
  }
  layout::TmemCopyOptions options;
  options.thread_begin = threads.begin;
  options.num_threads = threads.count;
  options.max_registers = MaxRegisters(*ctx);
  return options;
}

// Returns the fragment's map over the moving dimensions of its region.
Fragment RegionFragment(const Region& region, const Fragment& whole, const Span& span) {
  auto mins = ir::AsInts(region->mins);
  Coord extents = StaticExtents(region->extents, "the extents of a fragment region", span);
  if (!mins) {
    TL_USER_ERROR(kShape, span,
                  "region " << ir::Print(region)
                            << " of a fragment begins at an index that is known only at run time, "
                               "but registers have no addresses. Use a T.unroll loop between "
                               "constants, without break, continue and allocations");
  }
  Coord moving;
  for (int64_t e : extents) {
    if (e != 1) moving.push_back(e);
  }
  return whole.Slice(*mins, extents).Reshape(moving);
}

layout::TmemCopyPlans PlansOf(const ir::CopyNode* op, Context* ctx) {
  TmemTile tile = TileOf(TmemSide(op), op->span, ctx);
  const Region& side = FragmentSide(op);
  Fragment whole = *ctx->layouts->GetFragment(side->buffer);
  layout::TmemCopyOptions options = OptionsFor(op, ctx);
  if (!op->options->into_scratch) options.whole = whole.get();
  return layout::PlanTmemCopy(tile.layout, RegionFragment(side, whole, op->span), DirectionOf(op),
                              options);
}

std::string DescribeBoth(const ir::CopyNode* op, Context* ctx) {
  const Region& side = FragmentSide(op);
  return "fragment " + std::string(side->buffer->name) + ": " +
         (*ctx->layouts->GetFragment(side->buffer))->ToString() + "; tensor memory " +
         std::string(TmemSide(op)->buffer->name) + ": " +
         (*ctx->layouts->GetTmem(TmemSide(op)->buffer))->ToString();
}

// Asks for a fragment with ever fewer warpgroups, because some columns cannot be shared evenly by
// all of them. Prefers a fragment whose instructions move nothing beside the tile.
template <typename Ask>
layout::TmemFragment WithFewerThreads(layout::TmemCopyOptions options, Ask ask) {
  layout::TmemFragment best;
  while (true) {
    layout::TmemFragment found = ask(options);
    if (found.fragment && !found.beside) return found;
    if (!best.fragment) best = found;
    if (options.num_threads <= kWarpgroup) return best;
    options.num_threads = options.num_threads / (2 * kWarpgroup) * kWarpgroup;
  }
}

// Returns the fragment of the first choice in both directions. A tile that can be stored can be
// loaded, and a load of that form touches nothing but the tile.
layout::TmemFragment NaturalFragment(const TmemLayout& layout, TmemDirection direction,
                                     const layout::TmemCopyOptions& options) {
  auto natural_for = [&](TmemDirection wanted) {
    return WithFewerThreads(options, [&](const layout::TmemCopyOptions& fewer) {
      return layout::NaturalTmemFragment(layout, fewer, wanted);
    });
  };
  auto natural = natural_for(TmemDirection::kStore);
  if (natural.fragment || direction == TmemDirection::kStore) return natural;
  return natural_for(direction);
}

}  // namespace

bool IsTmemCopy(const ir::CopyNode* op) {
  bool from = op->src->buffer.IsTmem() && op->dst->buffer.IsFragment();
  bool to = op->src->buffer.IsFragment() && op->dst->buffer.IsTmem();
  return from || to;
}

Stmt ThroughFragment(const ir::CopyNode* op) {
  const Region& tmem = TmemSide(op);
  const Buffer& tile = tmem->buffer;
  Buffer staged(String(std::string(tile->name) + "_frag"), tile->dtype, tmem->extents, {},
                "local.fragment", {}, tile->span);
  Region whole = Region::Whole(staged);
  ir::Copy first(op->src, whole, op->span);
  ir::Copy second(op, whole, op->dst);
  // A copy from tensor memory to tensor memory of another type takes a fragment of each type, and a
  // copy between the two that converts.
  bool again = IsTmemCopy(second.get()) && tile->dtype != op->dst->buffer->dtype;
  return Sequence(
      {ir::Alloc(staged, op->span), first, again ? ThroughFragment(second.get()) : Stmt(second)},
      op->span);
}

namespace {

// Raises LayoutError, because no instruction moves the tile. With 64 rows the reason is most often
// the width.
[[noreturn]] void RefuseCopy(const ir::CopyNode* op, const TmemLayout& layout, std::string reason) {
  const Region& region = TmemSide(op);
  Coord extents = StaticExtents(region->extents, "the extents of a copy", op->span);
  int64_t width = extents.size() < 2 ? 1 : extents.back();
  int64_t bits = layout->IsUnpacked() ? layout::kTmemColumnBits : region->buffer->dtype.bits;
  int64_t columns = (width * bits + layout::kTmemColumnBits - 1) / layout::kTmemColumnBits;
  if (layout::Product(extents) == 64 * width && columns % 2 != 0) {
    reason = ": tiles of 64 rows are moved two 32-bit columns at a time, and this one has " +
             std::to_string(columns) +
             ". Give it one more, in tensor memory and in the fragment, and leave that unused; or "
             "use 128 rows";
  }
  TL_USER_ERROR(kLayout, op->span,
                "no tcgen05." << (DirectionOf(op) == TmemDirection::kLoad ? "ld" : "st")
                              << " moves " << ir::Print(region) << reason);
}

// Returns the layout that a fragment takes over from tensor memory if the copy has only a region of
// it. If the region is the same part of both buffers, this is the layout of the whole buffer.
// Otherwise it is the layout that the region would have as a tile of its own.
TmemLayout LayoutAround(const ir::CopyNode* op, const TmemLayout& part, Context* ctx) {
  const Region& side = FragmentSide(op);
  const Region& tmem = TmemSide(op);
  auto mins = ir::AsInts(tmem->mins);
  bool same = mins && mins == ir::AsInts(side->mins) &&
              StaticShape(tmem->buffer) == StaticShape(side->buffer);
  if (same) return *ctx->layouts->GetTmem(tmem->buffer);
  bool packed = !part->IsUnpacked() && side->buffer->dtype.bits < layout::kTmemColumnBits;
  Buffer whole(side->buffer->name, side->buffer->dtype, side->buffer->shape, {}, "shared.tmem", {},
               op->span);
  return LayoutForRole(whole, packed ? TmemRole::kOperandA : TmemRole::kAccumulator);
}

// Infers a layout from the side that is known. The layout of tensor memory gives the fragment in
// which an instruction moves it. A fragment that is already fixed is moved by whichever
// instructions fit, or converted if none fits.
void InferTmemCopy(const ir::CopyNode* op, InferLevel level, Context* ctx) {
  const Region& side = FragmentSide(op);
  if (level == InferLevel::kStrict) return;
  SetDefaultRole(TmemSide(op)->buffer, op->span, ctx);
  if (ctx->layouts->Has(side->buffer)) return;
  if (!side.IsWhole() && level != InferLevel::kFree) return;
  TmemLayout layout = TileOf(TmemSide(op), op->span, ctx).layout;
  Coord shape = StaticShape(side->buffer);
  if (!side.IsWhole()) layout = LayoutAround(op, layout, ctx);
  auto natural = NaturalFragment(layout, DirectionOf(op), OptionsFor(op, ctx));
  if (!natural.fragment) {
    RefuseCopy(op, layout, " with layout " + layout->ToString() + ": " + natural.reason);
  }
  ctx->layouts->Set(side->buffer, natural.fragment->Reshape(shape), op->span);
}

// Returns a fragment over the extents of the copy's region. If the copy's own fragment does not
// fit, it is converted to this one before a store, or from it after a load. Raises LayoutError with
// both layouts if no instruction moves the tile at all.
Fragment NearestFragment(const ir::CopyNode* op, Context* ctx) {
  const Region& side = FragmentSide(op);
  TmemTile tile = TileOf(TmemSide(op), op->span, ctx);
  Fragment held = RegionFragment(side, *ctx->layouts->GetFragment(side->buffer), op->span);
  auto near = WithFewerThreads(OptionsFor(op, ctx), [&](const layout::TmemCopyOptions& fewer) {
    return layout::NearestTmemFragment(tile.layout, held, DirectionOf(op), fewer);
  });
  if (!near.fragment) {
    RefuseCopy(op, tile.layout, ": " + near.reason + " (" + DescribeBoth(op, ctx) + ")");
  }
  return near.fragment->Reshape(StaticExtents(side->extents, "extents of a fragment", op->span));
}

// Returns the number of columns from the first to the last one that a warpgroup reaches.
int64_t ColumnsMoved(const layout::TmemCopyPlan& plan) {
  int64_t columns = 0;
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    const layout::TmemInstructionNode* inst = plan->Instruction(i);
    int64_t width = plan->Atom().columns * inst->repeat * (plan->pack ? 2 : 1);
    columns = std::max(columns, inst->column + plan->half_offset + width);
  }
  return columns;
}

// Returns whether warpgroup i moves the rows [128 * i, 128 * (i + 1)), side by side.
bool KeepsToRows(const layout::TmemCopyPlan& plan, const TmemLayout& tile, int64_t threads) {
  constexpr int64_t kRows = 128;
  Coord origin(tile->Extents().size(), 0);
  Coord next = origin;
  next[origin.size() - 2] = kRows;
  int64_t step = (tile->bit->Forward(next) - tile->bit->Forward(origin)) / layout::kTmemColumnBits;
  bool all = static_cast<int64_t>(plan->warps.size()) == threads / kWarp;
  return all && plan->warpgroup_columns == step && plan->first_column + ColumnsMoved(plan) <= step;
}

using layout::TmemCopyPlan;
using layout::TmemInstructionNode;

// Returns the number of columns that one instruction moves, from its first one on.
int64_t ColumnsOf(const TmemCopyPlan& plan, size_t i) {
  int64_t columns = plan->Instruction(i)->repeat * plan->Atom().columns * (plan->pack ? 2 : 1);
  return columns + plan->half_offset;
}

// Returns the attributes of a call that say which cells the copy touches, from the address in its
// first argument on.
Map<String, Any> Touches(const ir::CopyNode* op, int64_t lanes, int64_t columns,
                         const Context& ctx) {
  bool writes = DirectionOf(op) == TmemDirection::kStore;
  Map<String, Any> attrs;
  attrs.Set("tmem",
            Array<Array<int64_t>>{TmemBox(0, lanes, columns, writes, TmemSide(op)->buffer, ctx)});
  attrs.Set(kOperatorThreads, Array<int64_t>{ctx.threads.begin, ctx.threads.count});
  if (op->options->rows_of_warpgroups) attrs.Set(ir::kRowsOfWarpgroups, true);
  return attrs;
}

// Returns the texts that define the device functions of the instructions.
Array<String> Definitions(const TmemCopyPlan& plan, const char* macro) {
  bool halves = plan->Atom().shape == layout::TmemShape::k16x32bx2;
  Array<String> texts;
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    const TmemInstructionNode* inst = plan->Instruction(i);
    std::string repeat = std::to_string(inst->repeat);
    std::string form = halves ? "_HALVES(" + repeat
                              : "(" + std::string(plan->name) + ", " + repeat + ", " +
                                    std::to_string(inst->num_regs);
    texts.push_back(macro + form + (plan->pack ? ", true)" : ", false)"));
  }
  return texts;
}

// Emits all instructions and the wait in one call, so that nothing uses a register before the wait.
void EmitLoad(const ir::CopyNode* op, const TmemCopyPlan& plan, const Buffer& regs,
              const Expr& address, const Context& ctx, std::vector<Stmt>* stmts) {
  std::string call = "tcgen05_load<";
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    const TmemInstructionNode* inst = plan->Instruction(i);
    call += (i == 0 ? "tl::TmemLd" : ", tl::TmemLd") + std::string(plan->name) + "<" +
            std::to_string(inst->repeat) + (plan->pack ? ", true, " : ", false, ") +
            std::to_string((inst->lane << 16) + inst->column) + ", " + std::to_string(inst->reg);
    if (plan->Atom().shape == layout::TmemShape::k16x32bx2) {
      call += ", " + std::to_string(plan->half_offset);
    }
    call += ">";
  }
  Array<Expr> args = {address, ir::AddressOf(regs, {I32(0)})};
  int64_t columns = 0;
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    columns = std::max(columns, plan->Instruction(i)->column + ColumnsOf(plan, i));
  }
  Map<String, Any> attrs = Touches(op, layout::kTmemLanesPerWarp, columns, ctx);
  attrs.Set("definitions", Definitions(plan, "TL_TMEM_LD"));
  stmts->push_back(DeviceEffect("tcgen_05_ld.h", call + ">", args, op->span, attrs));
}

void EmitStore(const ir::CopyNode* op, const TmemCopyPlan& plan, const Buffer& regs,
               const Expr& address, const Context& ctx, std::vector<Stmt>* stmts) {
  // Turns "32x32b" into "32dp32b", as the device functions are called: data paths and bits.
  std::string shape = plan->name;
  shape.replace(shape.find('x'), 1, "dp");
  int64_t per_reg = 32 / regs->dtype.bits;
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    const TmemInstructionNode* inst = plan->Instruction(i);
    std::string call = "tcgen05_st_" + shape + "Nx<" + std::to_string(inst->repeat) +
                       (plan->pack ? ", true" : ", false");
    if (plan->Atom().shape == layout::TmemShape::k16x32bx2) {
      call += ", " + std::to_string(plan->half_offset);
    }
    Array<Expr> args = {address + U32((inst->lane << 16) + inst->column),
                        ir::AddressOf(regs, {I32(inst->reg * per_reg)})};
    Map<String, Any> attrs = Touches(op, plan->Atom().lanes, ColumnsOf(plan, i), ctx);
    attrs.Set("definitions", Definitions(plan, "TL_TMEM_ST"));
    stmts->push_back(DeviceEffect("tcgen_05_st.h", call + ">", args, op->span, attrs));
  }
}

// Returns whether a warp is one of some others, in ascending order: a comparison for each end of a
// range of numbers, which ptxas turns into one branch.
Expr IsOneOf(const Expr& warp, const Array<int64_t>& warps) {
  Expr found = ir::IntImm(ir::dtypes::kBool, 0);
  for (size_t first = 0, end = 0; first < warps.size(); first = end) {
    end = first + 1;
    while (end < warps.size() && warps[end] == warps[end - 1] + 1) ++end;
    int64_t last = warps[end - 1];
    Expr in_range = end == first + 1 ? ir::MakeEq(warp, I32(last))
                                     : warp >= I32(warps[first]) && warp < I32(last + 1);
    found = found || in_range;
  }
  return found;
}

// Emits the instructions of a plan for the warps that take part in it.
Stmt IssuePlan(const ir::CopyNode* op, const TmemCopyPlan& plan, const Expr& column,
               const Buffer& regs, Context* ctx) {
  // A warp adds its quarter of the lanes, and a warpgroup its part of the columns.
  Expr warp = ir::FloorDiv(ctx->thread - I32(ctx->threads.begin), 32);
  Expr lanes = ir::CastTo(ir::dtypes::kUInt32, ir::FloorMod(warp, 4)) * U32(32 << 16);
  Expr group = ir::FloorDiv(warp, 4);
  if (plan->FirstGroup() > 0) group = group - I32(plan->FirstGroup());
  Expr columns = ir::CastTo(ir::dtypes::kUInt32, group) * U32(plan->warpgroup_columns);
  Var address("taddr", ir::dtypes::kUInt32, op->span);
  std::vector<Stmt> stmts;
  stmts.push_back(
      ir::Bind(address, ctx->analyzer->Simplify(column + lanes + columns + U32(plan->first_column)),
               op->span));
  bool load = DirectionOf(op) == TmemDirection::kLoad;
  (load ? EmitLoad : EmitStore)(op, plan, regs, address, *ctx, &stmts);
  Stmt body = Sequence(stmts, op->span);
  if (static_cast<int64_t>(plan->warps.size()) == ctx->threads.count / kWarp) return body;
  return ir::If(ctx->analyzer->Simplify(IsOneOf(warp, plan->warps)), body, Stmt(), op->span);
}

// Loads a slice through a fragment of the same layout, in which the load may overwrite elements
// beside the slice. Returns null if that does not fit either.
Stmt ThroughScratch(const TileInstruction* instruction, const ir::CopyNode* op, Context* ctx) {
  const Buffer& fragment = op->dst->buffer;
  Buffer scratch(String(std::string(fragment->name) + "_near"), fragment->dtype, fragment->shape,
                 {}, "local.fragment", {}, op->span);
  ctx->layouts->Set(scratch, *ctx->layouts->GetFragment(fragment), op->span);
  Region part(scratch, op->dst->mins, op->dst->extents);
  ir::Copy load(op, [&](ir::CopyNode* copy) {
    copy->dst = part;
    copy->options =
        op->options.But([](ir::CopyOptionsNode* options) { options->into_scratch = true; });
  });
  layout::TmemCopyPlans plans = PlansOf(load.get(), ctx);
  if (plans.plans.empty() || plans.plans[0]->beside) return Stmt();
  std::vector<Stmt> stmts = {ir::Alloc(scratch, op->span), WithPlanOf(instruction, load, ctx)};
  Relayout(part, op->dst, op->span, ctx, &stmts);
  return Sequence(stmts, op->span);
}

// Copies through the nearest fragment that an instruction moves. Raises LayoutError if there is
// none.
Stmt ThroughNearest(const TileInstruction* instruction, const ir::CopyNode* op, Context* ctx) {
  bool load = op->src->buffer.IsTmem();
  const Region& side = FragmentSide(op);
  const Buffer& fragment = side->buffer;
  if (load && !side.IsWhole()) {
    Stmt through = ThroughScratch(instruction, op, ctx);
    if (through.defined()) return through;
  }
  Buffer twin(String(std::string(fragment->name) + "_near"), fragment->dtype, side->extents, {},
              "local.fragment", {}, op->span);
  ctx->layouts->Set(twin, NearestFragment(op, ctx), op->span);
  Region whole = Region::Whole(twin);
  std::vector<Stmt> stmts = {ir::Alloc(twin, op->span)};
  auto moved = [&](const Region& src, const Region& dst) {
    return WithPlanOf(instruction, ir::Copy(op, src, dst), ctx);
  };
  if (load) {
    stmts.push_back(moved(op->src, whole));
    Relayout(whole, side, op->span, ctx, &stmts);
  } else {
    Relayout(side, whole, op->span, ctx, &stmts);
    stmts.push_back(moved(whole, op->dst));
  }
  return Sequence(stmts, op->span);
}

class TmemLdStInstruction : public TileInstruction {
 public:
  explicit TmemLdStInstruction(TmemDirection direction) : direction_(direction) {}

  const char* Name() const override {
    return direction_ == TmemDirection::kLoad ? "tcgen05.ld" : "tcgen05.st";
  }
  Engine engine() const override { return Engine::kTmemLdSt; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kCopy && IsTmemCopy(AsCopy(op)) &&
           DirectionOf(AsCopy(op)) == direction_;
  }
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    InferTmemCopy(AsCopy(op), level, ctx);
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    layout::TmemCopyPlans plans = PlansOf(AsCopy(op), ctx);
    if (plans.plans.empty()) {
      return {TilePlan(), plans.reason + " (" + DescribeBoth(AsCopy(op), ctx) + ")"};
    }
    const ir::CopyNode* copy = AsCopy(op);
    TmemLayout tile = *ctx->layouts->GetTmem(TmemSide(copy)->buffer);
    if (copy->options->rows_of_warpgroups &&
        !KeepsToRows(plans.plans[0], tile, ctx->threads.count)) {
      TL_USER_ERROR(kLayout, op->span,
                    "the layout of fragment "
                        << std::string(FragmentSide(copy)->buffer->name)
                        << " has rows of one block of 128 in several warpgroups, which take turns "
                           "with the tensor core; leave the layout to the compiler, or compile "
                           "with tl.disable_warp_specialized. "
                        << DescribeBoth(copy, ctx));
    }
    return {TilePlan(ffi::make_object<TmemLdStPlanNode>(this, ctx->threads, plans.plans[0])), ""};
  }
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    return {ThroughNearest(this, AsCopy(op), ctx), "", /*needs_layouts=*/false};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    const ir::CopyNode* copy = AsCopy(op);
    TL_CHECK(copy->src->buffer->dtype == copy->dst->buffer->dtype, op->span,
             "a copy between registers and tensor memory converts "
                 << ir::ToString(copy->src->buffer->dtype) << " to "
                 << ir::ToString(copy->dst->buffer->dtype));
    const auto* plan = static_cast<const TmemLdStPlanNode*>(TilePlanOf(op));
    Expr column = TileOf(TmemSide(copy), op->span, lowering->ctx).column;
    Buffer regs = lowering->buffers->Get(FragmentSide(copy)->buffer);
    stmts->push_back(IssuePlan(copy, plan->copy, column, regs, lowering->ctx));
  }

 private:
  TmemDirection direction_;
};

}  // namespace

const TileInstruction* TmemLoad() {
  static const TmemLdStInstruction instruction(TmemDirection::kLoad);
  return &instruction;
}
const TileInstruction* TmemStore() {
  static const TmemLdStInstruction instruction(TmemDirection::kStore);
  return &instruction;
}

}  // namespace tilelang::op
