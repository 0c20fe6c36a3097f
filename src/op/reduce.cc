#include "op/reduce.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "ir/build.h"
#include "ir/error.h"
#include "layout/symbolic.h"
#include "op/scratch.h"

namespace tilelang::op {

using ir::DType;

namespace {

// The value that leaves any other unchanged.
Expr Identity(const ir::ReduceNode* op, DType t) {
  std::string name = op->op;
  if (name == "bitand") return ir::Const(t, int64_t{-1});
  if (name == "max" || name == "min") {
    double sign = name == "max" ? -1 : 1;
    if (ir::IsFloat(t) && !ir::IsFloat8(t)) {
      return ir::FloatImm(t, sign * std::numeric_limits<double>::infinity());
    }
    if (t == ir::dtypes::kFloat8E5M2) return ir::FloatImm(t, sign * 57344.0);
    if (t == ir::dtypes::kFloat8E4M3) return ir::FloatImm(t, sign * 448.0);
    if (ir::IsUInt(t) || ir::IsBool(t)) return ir::Const(t, name == "max" ? int64_t{0} : -1);
    int64_t most =
        t.bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (t.bits - 1)) - 1;
    return ir::Const(t, name == "max" ? -most - 1 : most);
  }
  return ir::Const(t, int64_t{0});
}

// The type of the running value: 16-bit and 8-bit floats add up in float32.
DType AccumulatorType(const ir::ReduceNode* op) {
  DType t = op->dst->buffer->dtype;
  return ir::IsFloat(t) && t.bits < 32 ? ir::dtypes::kFloat32 : t;
}

Expr Combine(const ir::ReduceNode* op, const Expr& a, const Expr& b) {
  std::string name = op->op;
  if (name == "sum" || name == "abssum") return a + b;
  if (name == "bitand") return ir::MakeBinary(ir::BinaryOp::kBitAnd, a, b);
  if (name == "bitor") return ir::MakeBinary(ir::BinaryOp::kBitOr, a, b);
  if (name == "bitxor") return ir::MakeBinary(ir::BinaryOp::kBitXor, a, b);
  bool is_max = name == "max" || name == "absmax";
  if (op->nan_propagate && ir::IsFloat(a.dtype())) {
    return ir::Call(a.dtype(), is_max ? "max_nan" : "min_nan", {a, b});
  }
  return is_max ? ir::Max(a, b) : ir::Min(a, b);
}

Expr Prepared(const ir::ReduceNode* op, const Expr& value, DType t) {
  Expr x = ir::CastTo(t, value);
  bool absolute = op->op == "abssum" || op->op == "absmax";
  if (absolute && !ir::IsUInt(t)) return ir::Call(t, "abs", {x});
  return x;
}

Region StageRegion(const Region& region, const char* suffix, std::vector<Stmt>* allocs) {
  const Buffer& b = region->buffer;
  Buffer staged(String(std::string(b->name) + suffix), b->dtype, region->extents, {},
                "local.fragment", {}, b->span);
  allocs->push_back(ir::Alloc(staged, b->span));
  return Region::Whole(staged);
}

// Source dimensions without those of extent 1 that the region fixes outside `dim`.
Fragment SourceFragment(const ir::ReduceNode* op, Context* ctx) {
  auto f = ctx->layouts->GetFragment(op->src->buffer);
  Coord begin;
  auto mins = ir::AsInts(op->src->mins);
  auto extents = ir::AsInts(op->src->extents);
  if (!mins || !extents) {
    TL_USER_ERROR(kShape, op->span, "a reduction takes whole fragments or constant slices");
  }
  return op->src.IsWhole() ? *f : f->Slice(*mins, *extents);
}

// The fragment of the result, shaped like the destination region.
Fragment ResultFragment(const ir::ReduceNode* op, const Fragment& src) {
  Coord extents = *ir::AsInts(op->dst->extents);
  bool keep = src->Rank() == 1 || extents.size() == src->Rank();
  return src.ReduceDim(op->dim, keep).Reshape(extents).CondenseRegisters();
}

}  // namespace

Stmt StageReduceOperands(const ir::ReduceNode* op) {
  bool src_ok = op->src->buffer.IsFragment();
  bool dst_ok = op->dst->buffer.IsFragment();
  if (src_ok && dst_ok) return ffi::GetRef<Stmt>(op);
  std::vector<Stmt> stmts;
  Region src = op->src;
  Region dst = op->dst;
  if (!src_ok) {
    src = StageRegion(op->src, "_frag", &stmts);
    stmts.push_back(ir::Copy(op->src, src, {}, op->span));
  }
  if (!dst_ok) {
    dst = StageRegion(op->dst, "_frag", &stmts);
    if (!op->clear) stmts.push_back(ir::Copy(op->dst, dst, {}, op->span));
  }
  stmts.push_back(ir::Reduce(src, dst, op->op, op->dim, op->clear, op->nan_propagate, op->span));
  if (!dst_ok) stmts.push_back(ir::Copy(dst, op->dst, {}, op->span));
  return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

void InferReduce(const ir::ReduceNode* op, Context* ctx) {
  if (!ctx->layouts->Has(op->src->buffer) || ctx->layouts->Has(op->dst->buffer)) return;
  if (!op->dst.IsWhole()) return;
  Fragment result = ResultFragment(op, SourceFragment(op, ctx));
  ctx->layouts->Set(op->dst->buffer, result, op->span);
}

std::string ReduceMismatch(const ir::ReduceNode* op, Context* ctx) {
  Fragment result = ResultFragment(op, SourceFragment(op, ctx));
  Fragment given = *ctx->layouts->GetFragment(op->dst->buffer);
  if (!op->dst.IsWhole()) return "the result is a slice of a fragment";
  if (given.SameMap(result)) return "";
  return "the result has layout " + given->ToString() + " but the reduction gives " +
         result->ToString();
}

namespace {

// Threads that hold parts of one result differ in the digits of the result's replica layout.
struct ThreadDigit {
  int64_t extent;
  int64_t stride;
};

class ReduceLowerer {
 public:
  ReduceLowerer(const ir::ReduceNode* op, PhysicalBuffers* buffers, Context* ctx)
      : op_(op),
        buffers_(buffers),
        ctx_(ctx),
        src_(SourceFragment(op, ctx)),
        dst_(ResultFragment(op, src_)),
        type_(AccumulatorType(op)) {}

  Stmt Lower() {
    int64_t results = dst_->RegsPerThread();
    Buffer out = buffers_->Get(op_->dst->buffer);
    // Reduce into the result's own registers when it starts afresh with the right type.
    bool direct = op_->clear && type_ == out->dtype;
    Buffer acc = direct
                     ? out
                     : Buffer(String(std::string(out->name) + "_acc"), type_,
                              {ir::Const(ir::dtypes::kInt32, results)}, {}, "local", {}, op_->span);
    std::vector<Stmt> stmts;
    if (!direct) stmts.push_back(ir::Alloc(acc, op_->span));
    stmts.push_back(ForRegs("r", results, [&](const Expr& r) {
      return ir::Store(acc, {r}, Identity(op_, type_), op_->span);
    }));
    stmts.push_back(ReduceRegisters(acc));
    AcrossThreads(acc, results, &stmts);
    if (!direct) {
      stmts.push_back(ForRegs("r", results, [&](const Expr& r) {
        Expr value = ir::Load(acc, {r});
        if (!op_->clear) value = Combine(op_, ir::CastTo(type_, ir::Load(out, {r})), value);
        return ir::Store(out, {r}, ir::CastTo(out->dtype, value), op_->span);
      }));
    }
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op_->span);
  }

 private:
  template <typename Fn>
  Stmt ForRegs(const char* name, int64_t count, Fn body) {
    Var r(name, ir::dtypes::kInt32, op_->span);
    return ir::For(r, 0, ir::Const(ir::dtypes::kInt32, count), ir::ForKind::kUnrolled, body(r), {},
                   op_->span);
  }

  // acc[result of r] op= src[r] for the thread's source registers.
  Stmt ReduceRegisters(const Buffer& acc) {
    Buffer src = buffers_->Get(op_->src->buffer);
    std::map<int64_t, int64_t> result_of;  // source register -> result register
    Coord coord(src_->Rank(), 0);
    Coord extents = src_->Extents();
    int64_t outer = layout::Product(extents);
    Coord dst_extents = extents;
    dst_extents[op_->dim] = 1;
    for (int64_t i = 0; i < outer; ++i) {
      coord = layout::Delinearize(extents, i);
      int64_t reg = src_->reg->At(i);
      coord[op_->dim] = 0;
      int64_t result = dst_->reg->At(layout::Linearize(dst_extents, coord));
      auto [it, fresh] = result_of.insert({reg, result});
      if (!fresh && it->second != result) {
        TL_USER_ERROR(kLayout, op_->span,
                      "register " << reg << " of " << std::string(op_->src->buffer->name)
                                  << " holds different rows in different threads; layout "
                                  << src_->ToString());
      }
    }
    return AccumulateLoop(acc, src, result_of);
  }

  // Slots of the source that hold no element count as the identity.
  Expr WhereValid(const Expr& value, const Expr& reg) {
    Expr valid =
        layout::InverseExprs(src_, ctx_->thread, reg, ctx_->threads.begin + ctx_->threads.count)
            .valid;
    if (!valid.defined()) return value;
    valid = ctx_->analyzer->Simplify(valid);
    return ir::IsTrue(valid) ? value : Expr(ir::Select(valid, value, Identity(op_, type_)));
  }

  Stmt AccumulateLoop(const Buffer& acc, const Buffer& src,
                      const std::map<int64_t, int64_t>& result_of) {
    std::vector<int64_t> from;
    std::vector<int64_t> to;
    for (const auto& [reg, result] : result_of) {
      from.push_back(reg);
      to.push_back(result);
    }
    auto count = static_cast<int64_t>(from.size());
    Layout source = Layout::FromValues({count}, from);
    Layout target = Layout::FromValues({count}, to);
    auto step = [&](const Expr& s, const Expr& t) -> Stmt {
      Expr value = WhereValid(Prepared(op_, ir::Load(src, {s}), type_), s);
      return ir::Store(acc, {t}, Combine(op_, ir::Load(acc, {t}), value), op_->span);
    };
    if (source->IsTable() || target->IsTable()) {
      std::vector<Stmt> steps;
      for (int64_t i = 0; i < count; ++i) {
        steps.push_back(
            step(ir::Const(ir::dtypes::kInt32, from[i]), ir::Const(ir::dtypes::kInt32, to[i])));
      }
      return ir::MakeSeq(steps, op_->span);
    }
    return ForRegs("r", count, [&](const Expr& r) -> Stmt {
      arith::Analyzer::Scope scope(ctx_->analyzer);
      ctx_->analyzer->Bind(Any(r).cast<Var>(), 0, ir::Const(ir::dtypes::kInt32, count));
      return step(ctx_->analyzer->Simplify(layout::ForwardExpr(source, {r})),
                  ctx_->analyzer->Simplify(layout::ForwardExpr(target, {r})));
    });
  }

  void AcrossThreads(const Buffer& acc, int64_t results, std::vector<Stmt>* stmts) {
    std::vector<ThreadDigit> shared;
    for (const ThreadDigit& digit : SourceDigits()) {
      if (!Shuffle(digit, acc, results, stmts)) shared.push_back(digit);
    }
    if (!shared.empty()) ThroughShared(shared, acc, results, stmts);
  }

  // The digits of the thread index along which the source's dimension runs; replicas that the
  // source itself had hold equal values and take no part.
  std::vector<ThreadDigit> SourceDigits() const {
    Fragment lane = src_;
    for (size_t d = src_->Rank(); d-- > 0;) {
      if (static_cast<int64_t>(d) == op_->dim || lane->Rank() == 1) continue;
      Coord begin(lane->Rank(), 0);
      Coord extents = lane->Extents();
      extents[d] = 1;
      lane = lane.Slice(begin, extents);
    }
    std::vector<int64_t> threads;
    for (int64_t value : lane->thread->Tabulate()) {
      if (std::find(threads.begin(), threads.end(), value) == threads.end()) {
        threads.push_back(value);
      }
    }
    std::sort(threads.begin(), threads.end());
    int64_t lowest = threads.front();
    for (int64_t& t : threads) t -= lowest;
    auto digits = layout::RecoverDigits(threads);
    if (!digits) {
      TL_USER_ERROR(kLayout, op_->span,
                    "the threads that hold a row of " << std::string(op_->src->buffer->name)
                                                      << " are not evenly spaced: layout "
                                                      << src_->ToString());
    }
    std::vector<int64_t> first = FirstThreads();
    std::vector<ThreadDigit> result;
    for (const layout::Digit& d : *digits) {
      if (d.extent > 1 && d.stride != 0) result.push_back(Widened(d, first));
    }
    return result;
  }

  // The threads that hold the first element of a row, of every row and copy.
  std::vector<int64_t> FirstThreads() const {
    std::vector<int64_t> threads;
    Coord begin(src_->Rank(), 0);
    Coord extents = src_->Extents();
    extents[op_->dim] = 1;
    std::vector<int64_t> copies = src_->replica->Tabulate();
    for (int64_t t : src_.Slice(begin, extents)->thread->Tabulate()) {
      for (int64_t copy : copies) threads.push_back(t + copy - ctx_->threads.begin);
    }
    return threads;
  }

  // A digit of a power of two: a row of 24 threads in 32 has 8 that hold nothing, and take part
  // with the identity. Rows must begin at multiples of the widened digit.
  ThreadDigit Widened(const layout::Digit& digit, const std::vector<int64_t>& first) const {
    auto extent = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(digit.extent)));
    bool regular = std::has_single_bit(static_cast<uint64_t>(digit.stride));
    for (int64_t t : first) regular = regular && (t & ((extent - 1) * digit.stride)) == 0;
    if (regular && extent * digit.stride <= ctx_->threads.count) return {extent, digit.stride};
    TL_USER_ERROR(kLayout, op_->span,
                  "rows of " << std::string(op_->src->buffer->name) << " are spread over "
                             << digit.extent << " threads at distance " << digit.stride
                             << ", which no exchange between threads follows; layout "
                             << src_->ToString()
                             << ". Choose sizes or an annotated layout in which a row is on a "
                                "power of two of threads");
  }

  // A butterfly inside the warp; false when the digit leaves the warp.
  bool Shuffle(const ThreadDigit& digit, const Buffer& acc, int64_t results,
               std::vector<Stmt>* stmts) {
    if (digit.extent * digit.stride > 32) return ShufflePart(digit, acc, results, stmts);
    for (int64_t step = digit.stride; step < digit.extent * digit.stride; step *= 2) {
      stmts->push_back(ForRegs("r", results, [&](const Expr& r) {
        Expr other =
            ir::Call(type_, "shfl_xor", {ir::Load(acc, {r}), ir::Const(ir::dtypes::kInt32, step)});
        return ir::Store(acc, {r}, Combine(op_, ir::Load(acc, {r}), other), op_->span);
      }));
    }
    return true;
  }

  // The part of a digit inside the warp by shuffles; the caller takes the rest to shared memory.
  bool ShufflePart(const ThreadDigit& digit, const Buffer& acc, int64_t results,
                   std::vector<Stmt>* stmts) {
    if (digit.stride < 32) Shuffle({32 / digit.stride, digit.stride}, acc, results, stmts);
    return false;
  }

  // Every thread writes its partial results; each reads those of its group.
  void ThroughShared(const std::vector<ThreadDigit>& digits, const Buffer& acc, int64_t results,
                     std::vector<Stmt>* stmts) {
    int64_t threads = ctx_->threads.count;
    Buffer scratch(String(std::string(acc->name) + "_smem"), type_,
                   {ir::Const(ir::dtypes::kInt32, threads * results)}, {}, "shared.dyn",
                   ScratchAttrs(), op_->span);
    Expr self = ctx_->thread - ir::Const(ir::dtypes::kInt32, ctx_->threads.begin);
    auto slot = [&](const Expr& thread, const Expr& r) {
      return ctx_->analyzer->Simplify(r * ir::Const(ir::dtypes::kInt32, threads) + thread);
    };
    stmts->push_back(ir::Alloc(scratch, op_->span));
    stmts->push_back(ForRegs("r", results, [&](const Expr& r) {
      return ir::Store(scratch, {slot(self, r)}, ir::Load(acc, {r}), op_->span);
    }));
    // The group's first thread: this thread's index without the digits.
    Expr first = self;
    int64_t members = 1;
    for (ThreadDigit digit : digits) {
      int64_t inside = digit.stride < 32 ? 32 / digit.stride : 1;
      digit = {digit.extent / inside, digit.stride * inside};
      Expr place = ir::FloorMod(ir::FloorDiv(self, ir::Const(ir::dtypes::kInt32, digit.stride)),
                                ir::Const(ir::dtypes::kInt32, digit.extent));
      first = first - place * ir::Const(ir::dtypes::kInt32, digit.stride);
      members *= digit.extent;
      remaining_.push_back(digit);
    }
    stmts->push_back(ForRegs("r", results, [&](const Expr& r) {
      return GroupSum(acc, scratch, r, first, members, slot);
    }));
  }

  template <typename Slot>
  Stmt GroupSum(const Buffer& acc, const Buffer& scratch, const Expr& r, const Expr& first,
                int64_t members, Slot slot) {
    Var m("m", ir::dtypes::kInt32, op_->span);
    Expr thread = ctx_->analyzer->Simplify(first);
    Expr rest = m;
    for (const ThreadDigit& digit : remaining_) {
      Expr place = ir::FloorMod(rest, ir::Const(ir::dtypes::kInt32, digit.extent));
      rest = ir::FloorDiv(rest, ir::Const(ir::dtypes::kInt32, digit.extent));
      thread = thread + place * ir::Const(ir::dtypes::kInt32, digit.stride);
    }
    arith::Analyzer::Scope scope(ctx_->analyzer);
    ctx_->analyzer->Bind(m, 0, ir::Const(ir::dtypes::kInt32, members));
    Stmt step =
        ir::Store(acc, {r}, Combine(op_, ir::Load(acc, {r}), ir::Load(scratch, {slot(thread, r)})),
                  op_->span);
    return ir::MakeSeq({ir::Store(acc, {r}, Identity(op_, type_), op_->span),
                        ir::For(m, 0, ir::Const(ir::dtypes::kInt32, members),
                                ir::ForKind::kUnrolled, step, {}, op_->span)},
                       op_->span);
  }

  const ir::ReduceNode* op_;
  PhysicalBuffers* buffers_;
  Context* ctx_;
  Fragment src_;
  Fragment dst_;
  DType type_;
  std::vector<ThreadDigit> remaining_;
};

// Each thread reduces its registers, then warp shuffles, then shared memory.
class ThreadReduceInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "threads"; }
  Engine engine() const override { return Engine::kThreads; }

  bool IsFor(const ir::TileOpNode* op) const override { return op->kind == ir::StmtKind::kReduce; }
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    InferReduce(AsReduce(op), ctx);
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    std::string reason = ReduceMismatch(AsReduce(op), ctx);
    if (!reason.empty()) return {TilePlan(), reason};
    return {TilePlan(ffi::make_object<TilePlanNode>(this, ctx->threads)), ""};
  }
  void Issue(const ir::TileOpNode* op, Lowering* lowering,
             std::vector<Stmt>* stmts) const override {
    ReduceLowerer lowerer(AsReduce(op), lowering->buffers, lowering->ctx);
    stmts->push_back(lowerer.Lower());
  }
};

}  // namespace

const TileInstruction* ThreadReduce() {
  static const ThreadReduceInstruction instruction;
  return &instruction;
}

}  // namespace tilelang::op
