#include "op/scan.h"

#include <string>
#include <string_view>

#include "ir/build.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "layout/symbolic.h"
#include "op/access.h"
#include "op/effect.h"
#include "op/reduce_values.h"
#include "op/relayout.h"
#include "op/scan_layout.h"
#include "op/scratch.h"
#include "target/warp.h"

namespace tilelang::op {

using ir::DType;

namespace {

// Returns the type of running values: the type of the result, or the type of the elements if it
// holds more.
DType RunningTypeOf(const ir::ReduceNode* op, const ScanKind& kind) {
  DType from = op->src->buffer->dtype;
  DType to = op->dst->buffer->dtype;
  bool of_source = ir::IsFloat(from) ? !ir::IsFloat(to) || from.bits > to.bits
                                     : kind.combine == "max" && !ir::IsFloat(to);
  return RunningType(of_source ? from : to);
}

ScanLayout LayoutFor(const ir::ReduceNode* op, Context* ctx) {
  Coord extents = StaticExtents(op->src->extents, "a scan", op->span);
  return ScanLayoutOf(extents, op->dim, op->src->buffer->dtype.bits, ctx->threads);
}

// Writes the statements of a scan whose operands have its layout.
class ScanLowerer {
 public:
  ScanLowerer(const ir::ReduceNode* op, PhysicalBuffers* buffers, Context* ctx)
      : op_(op),
        ctx_(ctx),
        kind_(*ScanOf(op)),
        layout_(LayoutFor(op, ctx)),
        reduction_{kind_.combine, RunningTypeOf(op, kind_)},
        src_(buffers->Get(op->src->buffer)),
        dst_(buffers->Get(op->dst->buffer)),
        self_(ctx->thread - Int(ctx->threads.begin)) {
    auto rows = static_cast<int64_t>(layout_.rows.size());
    bool direct = dst_->dtype == reduction_.type;
    sums_ = direct ? dst_ : Local("_sums", layout_.fragment->RegsPerThread());
    totals_ = Local("_totals", rows * layout_.turns);
    before_ = Local("_before", rows * layout_.turns);
    other_ = Local("_other", 1);
    rows_ = Local("_rows", rows);
  }

  Stmt Lower() {
    lane_ = Place(layout_.lane_stride, layout_.lanes);
    warp_ = Place(layout_.lane_stride * layout_.lanes, layout_.warps);
    for (int64_t row = 0; row < Rows(); ++row) {
      for (int64_t turn = 0; turn < layout_.turns; ++turn) InThread(row, turn);
      for (int64_t turn = 0; turn < layout_.turns; ++turn) AcrossLanes(Index(row, turn));
      AcrossTurns(row);
    }
    if (layout_.warps > 1) AcrossWarps();
    for (int64_t row = 0; row < Rows(); ++row) {
      for (int64_t turn = 0; turn < layout_.turns; ++turn) Conclude(row, turn);
    }
    return ir::MakeSeq(stmts_, op_->span);
  }

 private:
  static Expr Int(int64_t value) { return ir::Const(ir::dtypes::kInt32, value); }
  int64_t Rows() const { return static_cast<int64_t>(layout_.rows.size()); }
  int64_t Index(int64_t row, int64_t turn) const { return row * layout_.turns + turn; }

  Buffer Local(const char* suffix, int64_t length) {
    Buffer buffer(String(std::string(dst_->name) + suffix), reduction_.type, {Int(length)}, {},
                  "local", {}, op_->span);
    stmts_.push_back(ir::Alloc(buffer, op_->span));
    return buffer;
  }
  Expr At(const Buffer& buffer, int64_t index) const { return ir::Load(buffer, {Int(index)}); }
  void Set(const Buffer& buffer, int64_t index, const Expr& value) {
    stmts_.push_back(ir::Store(buffer, {Int(index)}, value, op_->span));
  }
  Expr Simple(const Expr& e) const { return ctx_->analyzer->Simplify(e); }

  // Returns this thread's place in the order of the scan, among `count` threads at a distance of
  // `stride`.
  Expr Place(int64_t stride, int64_t count) const {
    Expr place = ir::FloorMod(ir::FloorDiv(self_, Int(stride)), Int(count));
    return Simple(kind_.reverse ? Expr(Int(count - 1) - place) : place);
  }
  // Returns the i-th of `count` places in the order of the scan.
  int64_t Ordered(int64_t i, int64_t count) const { return kind_.reverse ? count - 1 - i : i; }
  // Returns the register of the i-th element of a turn.
  int64_t Register(int64_t row, int64_t turn, int64_t i) const {
    return layout_.rows[static_cast<size_t>(row)] + turn * layout_.turn_step +
           Ordered(i, layout_.vector) * layout_.vector_step;
  }

  // Returns the element of a register, or the identity if the register holds none.
  Expr Element(int64_t reg) const {
    Expr value = reduction_.Prepared(At(src_, reg));
    Expr valid = layout::InverseExprs(layout_.fragment, ctx_->thread, Int(reg),
                                      ctx_->threads.begin + ctx_->threads.count)
                     .valid;
    if (!valid.defined()) return value;
    valid = Simple(valid);
    return ir::IsTrue(valid) ? value : Expr(ir::Select(valid, value, reduction_.Identity()));
  }

  bool Exists(int64_t reg) const { return reg < layout_.fragment->RegsPerThread(); }

  void InThread(int64_t row, int64_t turn) {
    Expr sum;
    for (int64_t i = 0; i < layout_.vector; ++i) {
      int64_t reg = Register(row, turn, i);
      if (!Exists(reg)) continue;
      Expr value = Element(reg);
      Set(sums_, reg, sum.defined() ? reduction_.Combine(sum, value) : value);
      sum = At(sums_, reg);
    }
    Set(totals_, Index(row, turn), sum.defined() ? sum : reduction_.Identity());
  }

  Expr FromLaneBefore(const Expr& value, int64_t distance) const {
    return ir::Call(reduction_.type, kind_.reverse ? "shfl_down" : "shfl_up",
                    {value, Int(distance * layout_.lane_stride), Int(kWarp)});
  }

  // Scans the totals of the lanes: each becomes the total of all lanes up to it. before_ gets the
  // total without the lane's own.
  void AcrossLanes(int64_t index) {
    if (layout_.lanes == 1) return Set(before_, index, reduction_.Identity());
    for (int64_t distance = 1; distance < layout_.lanes; distance *= 2) {
      Set(other_, 0, FromLaneBefore(At(totals_, index), distance));
      Expr both = reduction_.Combine(At(other_, 0), At(totals_, index));
      Set(totals_, index, ir::Select(lane_ >= Int(distance), both, At(totals_, index)));
    }
    Set(other_, 0, FromLaneBefore(At(totals_, index), 1));
    Set(before_, index, ir::Select(lane_ >= Int(1), At(other_, 0), reduction_.Identity()));
  }

  // Scans the turns: the total of all lanes in a turn comes before the next turn. rows_ gets the
  // total of all turns.
  void AcrossTurns(int64_t row) {
    if (layout_.turns == 1 && layout_.warps == 1) return;
    int64_t together = layout_.lane_stride * layout_.lanes;
    Expr first = ir::FloorMod(self_, Int(layout_.lane_stride)) +
                 ir::FloorDiv(ir::FloorMod(self_, Int(kWarp)), Int(together)) * Int(together);
    Expr last = Simple(first + Int(kind_.reverse ? 0 : together - layout_.lane_stride));
    for (int64_t i = 0; i < layout_.turns; ++i) {
      int64_t index = Index(row, Ordered(i, layout_.turns));
      if (i > 0) Set(before_, index, reduction_.Combine(At(rows_, row), At(before_, index)));
      Expr total = At(totals_, index);
      if (layout_.lanes > 1) {
        total = ir::Call(reduction_.type, "shfl_sync", {total, last, Int(kWarp)});
      }
      Set(other_, 0, total);
      Set(rows_, row,
          i > 0 ? reduction_.Combine(At(rows_, row), At(other_, 0)) : Expr(At(other_, 0)));
    }
  }

  // Scans the warps: each warp leaves its part of every row in shared memory, and adds the parts of
  // the warps before it.
  void AcrossWarps() {
    int64_t together = layout_.lane_stride * layout_.lanes;  // threads
    int64_t groups = layout_.threads / (layout_.lanes * layout_.warps);
    int64_t slots = Rows() * layout_.warps * groups;
    Buffer parts(String(std::string(dst_->name) + "_parts"), reduction_.type, {Int(slots)}, {},
                 "shared.dyn", ScratchAttrs(), op_->span);
    stmts_.push_back(ir::Alloc(parts, op_->span));
    Expr group = ir::FloorMod(self_, Int(layout_.lane_stride)) +
                 ir::FloorDiv(self_, Int(together * layout_.warps)) * Int(layout_.lane_stride);
    auto slot = [&](int64_t row, const Expr& warp) {
      return Simple((Int(row * layout_.warps) + warp) * Int(groups) + group);
    };
    std::vector<Stmt> stores;
    for (int64_t row = 0; row < Rows(); ++row) {
      stores.push_back(ir::Store(parts, {slot(row, warp_)}, At(rows_, row), op_->span));
    }
    Expr leaves = Simple(lane_ < Int(1) && self_ < Int(layout_.threads));
    stmts_.push_back(ir::If(leaves, ir::MakeSeq(stores, op_->span), Stmt(), op_->span));
    // A thread without elements may read anything.
    for (int64_t row = 0; row < Rows(); ++row) {
      Set(rows_, row, reduction_.Identity());
      for (int64_t warp = 0; warp + 1 < layout_.warps; ++warp) {
        Expr from = slot(row, Int(warp));
        if (layout_.threads < ctx_->threads.count) from = ir::Min(from, Int(slots - 1));
        Expr part = ir::Load(parts, {from});
        Expr both = reduction_.Combine(At(rows_, row), part);
        Set(rows_, row, ir::Select(Int(warp) < warp_, both, At(rows_, row)));
      }
      for (int64_t turn = 0; turn < layout_.turns; ++turn) {
        int64_t index = Index(row, turn);
        Set(before_, index, reduction_.Combine(At(rows_, row), At(before_, index)));
      }
    }
  }

  void Conclude(int64_t row, int64_t turn) {
    bool is_first = layout_.lanes == 1 && layout_.warps == 1 && layout_.turns == 1;
    for (int64_t i = 0; i < layout_.vector; ++i) {
      int64_t reg = Register(row, turn, i);
      if (!Exists(reg)) continue;
      Expr value = At(sums_, reg);
      if (!is_first) value = reduction_.Combine(At(before_, Index(row, turn)), value);
      Set(dst_, reg, ir::CastTo(dst_->dtype, value));
    }
  }

  const ir::ReduceNode* op_;
  Context* ctx_;
  ScanKind kind_;
  ScanLayout layout_;
  Reduction reduction_;
  Buffer src_;
  Buffer dst_;
  Expr self_;  // among the operator's threads
  std::vector<Stmt> stmts_;
  Buffer sums_;    // the prefixes within the thread; the result's own registers where they can
  Buffer totals_;  // of each row and turn
  Buffer before_;  // all that comes before the thread's part of a row and turn
  Buffer other_;   // of another lane
  Buffer rows_;    // of each row
  Expr lane_;      // places in the order of the scan
  Expr warp_;
};

class ThreadScanInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "scan"; }
  Engine engine() const override { return Engine::kThreads; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kReduce && ScanOf(AsReduce(op));
  }
  // The scan decides if no other operator has decided, because every load of the tile can follow
  // it.
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    if (level == InferLevel::kStrict) return;
    const ir::ReduceNode* scan = AsReduce(op);
    for (const Region& region : {scan->src, scan->dst}) {
      if (!region.IsWhole() || ctx->layouts->Has(region->buffer)) continue;
      ctx->layouts->Set(region->buffer, LayoutFor(scan, ctx).fragment, scan->span);
    }
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::ReduceNode* scan = AsReduce(op);
    Fragment needed = LayoutFor(scan, ctx).fragment;
    for (const Region& region : {scan->src, scan->dst}) {
      if (region.IsWhole() && LayoutOf(region, ctx).SameMap(needed)) continue;
      return {TilePlan(), ir::Print(region) + " has another layout than the scan needs"};
    }
    return {TilePlan(ffi::make_object<TilePlanNode>(this, ctx->threads)), ""};
  }
  // Scans copies of the operands in the layout of the scan.
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::ReduceNode* scan = AsReduce(op);
    Fragment needed = LayoutFor(scan, ctx).fragment;
    std::vector<Stmt> stmts;
    auto fits = [&](const Region& region) {
      return region.IsWhole() && LayoutOf(region, ctx).SameMap(needed);
    };
    auto twin_of = [&](const Region& region) {
      Buffer twin(String(std::string(region->buffer->name) + "_scan"), region->buffer->dtype,
                  region->extents, {}, "local.fragment", {}, scan->span);
      stmts.push_back(ir::Alloc(twin, scan->span));
      ctx->layouts->Set(twin, needed, scan->span);
      return Region::Whole(twin);
    };
    Region src = fits(scan->src) ? scan->src : twin_of(scan->src);
    bool shares = !fits(scan->src) && src->buffer->dtype == scan->dst->buffer->dtype;
    Region dst = fits(scan->dst) ? scan->dst : shares ? src : twin_of(scan->dst);
    if (!src.same_as(scan->src)) Relayout(scan->src, src, scan->span, ctx, &stmts);
    stmts.push_back(WithPlanOf(this, ir::Reduce(scan, src, dst), ctx));
    if (!dst.same_as(scan->dst)) Relayout(dst, scan->dst, scan->span, ctx, &stmts);
    return {ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), scan->span), "",
            /*needs_layouts=*/false};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    stmts->push_back(ScanLowerer(AsReduce(op), lowering->buffers, lowering->ctx).Lower());
  }
};

}  // namespace

std::optional<ScanKind> ScanOf(const ir::ReduceNode* op) {
  std::string_view name(op->op.data(), op->op.size());
  constexpr std::string_view kReverse = "reverse_";
  bool reverse = name.starts_with(kReverse);
  if (reverse) name.remove_prefix(kReverse.size());
  if (name == "cumsum") return ScanKind{"sum", reverse};
  if (name == "cummax") return ScanKind{"max", reverse};
  return std::nullopt;
}

const TileInstruction* ThreadScan() {
  static const ThreadScanInstruction instruction;
  return &instruction;
}

}  // namespace tilelang::op
