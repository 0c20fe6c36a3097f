#include "op/reduce.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <map>

#include "ir/build.h"
#include "ir/error.h"
#include "layout/symbolic.h"
#include "op/effect.h"
#include "op/reduce_layout.h"
#include "op/reduce_values.h"
#include "op/relayout.h"
#include "op/scan.h"
#include "op/scratch.h"
#include "target/warp.h"

namespace tilelang::op {

using ir::DType;

namespace {

Region StageRegion(const Region& region, const char* suffix, std::vector<Stmt>* allocs) {
  const Buffer& b = region->buffer;
  Buffer staged(String(std::string(b->name) + suffix), b->dtype, region->extents, {},
                "local.fragment", {}, b->span);
  allocs->push_back(ir::Alloc(staged, b->span));
  return Region::Whole(staged);
}

// Returns the layout with `dim` divided in two if the reduction keeps partial results: (elements of
// a result, results).
Fragment Divided(const ir::ReduceNode* op, const Fragment& source) {
  int64_t partials = op->Partials();
  if (partials == 1) return source;
  Coord extents = source->Extents();
  extents[op->dim] /= partials;
  extents.insert(extents.begin() + op->dim + 1, partials);
  return source.Reshape(extents);
}

// Returns the layout of an operand's fragment. No operator chooses one for slices of a fragment
// that nothing else uses.
Fragment KnownFragment(const ir::ReduceNode* op, const ir::Buffer& buffer, Context* ctx) {
  auto known = ctx->layouts->GetFragment(buffer);
  if (!known) {
    TL_USER_ERROR(kLayout, op->span,
                  "nothing but slices uses fragment '" + std::string(buffer->name) +
                      "', so that its layout is not known; fill, copy or compute it as a whole");
  }
  return *known;
}

// Returns the layout over the extents of the source region, divided.
Fragment SourceFragment(const ir::ReduceNode* op, Context* ctx) {
  Fragment f = KnownFragment(op, op->src->buffer, ctx);
  auto mins = ir::AsInts(op->src->mins);
  auto extents = ir::AsInts(op->src->extents);
  if (!mins || !extents) {
    TL_USER_ERROR(kShape, op->span, "a reduction takes whole fragments or constant slices");
  }
  return Divided(op, op->src.IsWhole() ? f : f.Slice(*mins, *extents));
}

// Returns the fragment of the result, shaped like the destination region.
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
    stmts.push_back(ir::Copy(op->src, src, op->span));
  }
  if (!dst_ok) {
    dst = StageRegion(op->dst, "_frag", &stmts);
    if (!op->clear) stmts.push_back(ir::Copy(op->dst, dst, op->span));
  }
  stmts.push_back(ir::Reduce(op, src, dst));
  if (!dst_ok) stmts.push_back(ir::Copy(dst, op->dst, op->span));
  return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

namespace {

// Returns the layout in which the source is reduced, in the form of SourceFragment: its own, or
// another one if threads cannot exchange parts of its rows.
Fragment ReductionSource(const ir::ReduceNode* op, Context* ctx) {
  Fragment held = SourceFragment(op, ctx);
  if (ReductionObstacle(held, op->dim, ctx->threads).empty()) return held;
  return ExchangeableLayout(held->Extents(), op->dim, ctx->threads);
}

// Infers the layout of the result from the layout of the source (common level). Chooses the layout
// of a source that no other operator decides (free level): nothing has written it.
void InferReduce(const ir::ReduceNode* op, InferLevel level, Context* ctx) {
  auto shape = ir::AsInts(op->src->buffer->shape);
  if (level == InferLevel::kFree && !ctx->layouts->Has(op->src->buffer) && op->src.IsWhole() &&
      shape) {
    ctx->layouts->Set(op->src->buffer, ExchangeableLayout(*shape, op->dim, ctx->threads), op->span);
  }
  if (!ctx->layouts->Has(op->src->buffer) || ctx->layouts->Has(op->dst->buffer)) return;
  if (!op->dst.IsWhole()) return;
  Fragment result = ResultFragment(op, ReductionSource(op, ctx));
  ctx->layouts->Set(op->dst->buffer, result, op->span);
}

// Returns why the layout of the result is not the one that the reduction gives, or an empty string.
std::string ReduceMismatch(const ir::ReduceNode* op, Context* ctx) {
  Fragment result = ResultFragment(op, ReductionSource(op, ctx));
  Fragment given = KnownFragment(op, op->dst->buffer, ctx);
  if (!op->dst.IsWhole()) return "the result is a slice of a fragment";
  if (given.SameMap(result)) return "";
  return "the result has layout " + given->ToString() + " but the reduction gives " +
         result->ToString();
}

class ReduceLowerer {
 public:
  ReduceLowerer(const ir::ReduceNode* op, PhysicalBuffers* buffers, Context* ctx)
      : op_(op),
        buffers_(buffers),
        ctx_(ctx),
        src_(SourceFragment(op, ctx)),
        dst_(ResultFragment(op, src_)),
        exchange_(FindRowExchange(src_, op->dim, dst_, ctx->threads)),
        reduction_(ReductionOf(op)),
        type_(reduction_.type) {
    TL_CHECK(exchange_.obstacle.empty(), op->span, "a reduction kept where " << exchange_.obstacle);
  }

  Stmt Lower() {
    int64_t results = dst_->RegsPerThread();
    Buffer out = buffers_->Get(op_->dst->buffer);
    // The result's own registers accumulate if they have the right type, do not hold the source,
    // and hold no value that each thread would combine once more.
    bool in_place = op_->src->buffer.same_as(op_->dst->buffer);
    bool afresh = op_->clear || (exchange_.digits.empty() && !op_->slack.defined());
    bool direct = afresh && type_ == out->dtype && !in_place;
    Buffer acc = direct
                     ? out
                     : Buffer(String(std::string(out->name) + "_acc"), type_,
                              {ir::Const(ir::dtypes::kInt32, results)}, {}, "local", {}, op_->span);
    std::vector<Stmt> stmts;
    if (!direct) stmts.push_back(ir::Alloc(acc, op_->span));
    if (!direct || op_->clear) {
      stmts.push_back(ForRegs("r", results, [&](const Expr& r) {
        return ir::Store(acc, {r}, reduction_.Identity(), op_->span);
      }));
    }
    Accumulate(acc, results, &stmts);
    std::vector<Stmt> combine;
    AcrossThreads(acc, results, &combine);
    if (!direct) combine.push_back(Conclude(acc, out, results));
    if (op_->slack.defined() && RowsWithinWarps()) {
      combine = {WhereBeyondSlack(acc, out, results, Sequence(combine, op_->span))};
    }
    stmts.insert(stmts.end(), combine.begin(), combine.end());
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op_->span);
  }

 private:
  // Combines the results of the rows in `acc` with the old values, and stores them.
  Stmt Conclude(const Buffer& acc, const Buffer& out, int64_t results) {
    return ForRegs("r", results, [&](const Expr& r) {
      Expr value = ir::Load(acc, {r});
      if (!op_->clear) value = reduction_.Combine(ir::CastTo(type_, ir::Load(out, {r})), value);
      return ir::Store(out, {r}, ir::CastTo(out->dtype, value), op_->span);
    });
  }

  // Returns whether the threads of each row are in one warp, and all lanes of that warp exist.
  bool RowsWithinWarps() const {
    return ctx_->threads.count % kWarp == 0 && src_->Replicas() == 1 &&
           std::all_of(exchange_.digits.begin(), exchange_.digits.end(),
                       [&](const ThreadDigit& d) { return ExtentInWarp(d) == d.extent; });
  }

  // Runs the `update` of a reduction with slack only in warps in which an element needs it. Threads
  // know whether one does before they exchange results. Rows lie within warps, so all threads of a
  // row update it, or none does.
  Stmt WhereBeyondSlack(const Buffer& acc, const Buffer& out, int64_t results, const Stmt& update) {
    Expr beyond;
    for (int64_t r = 0; r < results; ++r) {
      Expr index = ir::Const(ir::dtypes::kInt32, r);
      Expr old = ir::CastTo(type_, ir::Load(out, {index}));
      Expr slack = ir::CastTo(type_, op_->slack);
      Expr found = ir::Load(acc, {index});
      Expr is_beyond = op_->op == "max" ? old + slack < found : found < old - slack;
      beyond = beyond.defined() ? Expr(beyond || is_beyond) : is_beyond;
    }
    Expr any = ir::Call(ir::dtypes::kBool, "any_sync", {beyond});
    return ir::If(any, update, Stmt(), op_->span);
  }

  template <typename Fn>
  Stmt ForRegs(const char* name, int64_t count, Fn body) {
    Var r(name, ir::dtypes::kInt32, op_->span);
    return ir::For(r, 0, ir::Const(ir::dtypes::kInt32, count), ir::ForKind::kUnrolled, body(r), {},
                   op_->span);
  }

  // Replaces slots of the source that hold no element by the identity.
  Expr WhereValid(const Expr& value, const Expr& reg) {
    Expr valid =
        layout::InverseExprs(src_, ctx_->thread, reg, ctx_->threads.begin + ctx_->threads.count)
            .valid;
    if (!valid.defined()) return value;
    valid = ctx_->analyzer->Simplify(valid);
    return ir::IsTrue(valid) ? value : Expr(ir::Select(valid, value, reduction_.Identity()));
  }

  // Computes acc[result of r] op= src[r] for the thread's source registers. If a thread holds long
  // rows, each element would wait for the one before. Several chains therefore take turns, if the
  // result does not depend on the order. Sums do depend on it, so they have chains only on targets
  // with tensor memory, where a thread may hold a whole row of scores; the order is the same each
  // time.
  void Accumulate(const Buffer& acc, int64_t results, std::vector<Stmt>* stmts) {
    constexpr int64_t kLongRow = 64;
    constexpr int64_t kChains = 4;
    bool any_order = !ir::IsFloat(type_) || op_->op == "max" || op_->op == "min" ||
                     op_->op == "absmax" || (op_->op == "sum" && ctx_->target->has_tcgen05);
    auto elements = static_cast<int64_t>(exchange_.result_of.size());
    if (!any_order || elements < kLongRow * results) {
      stmts->push_back(AccumulateLoop(acc, results, 1));
      return;
    }
    Buffer chains(String(std::string(acc->name) + "_chains"), type_,
                  {ir::Const(ir::dtypes::kInt32, kChains * results)}, {}, "local", {}, op_->span);
    stmts->push_back(ir::Alloc(chains, op_->span));
    stmts->push_back(ForRegs("r", kChains * results, [&](const Expr& r) {
      return ir::Store(chains, {r}, reduction_.Identity(), op_->span);
    }));
    Stmt packed = PackedSums(chains, results, elements, kChains);
    stmts->push_back(packed.defined() ? packed : AccumulateLoop(chains, results, kChains));
    stmts->push_back(ForRegs("r", results, [&](const Expr& r) {
      auto chain = [&](int64_t c) {
        return ir::Load(chains, {r + ir::Const(ir::dtypes::kInt32, c * results)});
      };
      Expr low = reduction_.Combine(chain(0), chain(1));
      Expr all = reduction_.Combine(low, reduction_.Combine(chain(2), chain(3)));
      return ir::Store(acc, {r}, reduction_.Combine(ir::Load(acc, {r}), all), op_->span);
    }));
  }

  // Adds all registers of the source to the four chains of one result, two at once; null if the
  // target has no packed operations, or if the registers are not the elements in their order. The
  // sums are those of AccumulateLoop, bit for bit.
  Stmt PackedSums(const Buffer& chains, int64_t results, int64_t elements, int64_t count) {
    bool fits = op_->op == "sum" && type_ == ir::dtypes::kFloat32 && results == 1 &&
                op_->src->buffer->dtype == type_ && op_->src.IsWhole() &&
                ctx_->target->has_packed_f32x2 && elements % count == 0;
    Expr one = ir::Const(type_, 1);
    for (int64_t i = 0; fits && i < elements; ++i) {
      fits = exchange_.result_of.count(i) != 0 &&
             WhereValid(one, ir::Const(ir::dtypes::kInt32, i)).same_as(one);
    }
    if (!fits) return Stmt();
    Buffer src = buffers_->Get(op_->src->buffer);
    return ForRegs("r", elements / count, [&](const Expr& r) -> Stmt {
      Expr first = r * ir::Const(ir::dtypes::kInt32, count);
      return ir::Evaluate(ir::Call(ir::dtypes::kVoid, "add_four",
                                   {ir::AddressOf(chains, {ir::Const(ir::dtypes::kInt32, 0)}),
                                    ir::AddressOf(src, {first})},
                                   {}, op_->span),
                          op_->span);
    });
  }

  // Elements of a result go to its chains in turn: chain c of result r is acc[c * results + r].
  Stmt AccumulateLoop(const Buffer& acc, int64_t results, int64_t chains) {
    Buffer src = buffers_->Get(op_->src->buffer);
    std::vector<int64_t> from;
    std::vector<int64_t> to;
    std::vector<int64_t> taken(static_cast<size_t>(results));  // elements of each result so far
    for (const auto& [reg, result] : exchange_.result_of) {
      from.push_back(reg);
      to.push_back(taken[static_cast<size_t>(result)]++ % chains * results + result);
    }
    auto count = static_cast<int64_t>(from.size());
    Layout source = Layout::FromValues({count}, from);
    Layout target = Layout::FromValues({count}, to);
    auto step = [&](const Expr& s, const Expr& t) -> Stmt {
      Expr value = WhereValid(reduction_.Prepared(ir::Load(src, {s})), s);
      return ir::Store(acc, {t}, reduction_.Combine(ir::Load(acc, {t}), value), op_->span);
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
    for (const ThreadDigit& digit : exchange_.digits) {
      int64_t inside = ExtentInWarp(digit);
      Shuffle({inside, digit.stride}, acc, results, stmts);
      if (inside == digit.extent) continue;
      shared.push_back({digit.extent / inside, digit.stride * inside});
    }
    if (!shared.empty()) ThroughShared(shared, acc, results, stmts);
  }

  // Returns how much of a digit shuffles can exchange: the part inside of a warp of which all lanes
  // exist.
  int64_t ExtentInWarp(const ThreadDigit& digit) const {
    if (digit.stride >= kWarp) return 1;
    int64_t extent = std::min(digit.extent, kWarp / digit.stride);
    int64_t count = ctx_->threads.count;
    return count % kWarp == 0 || count % (extent * digit.stride) == 0 ? extent : 1;
  }

  // Exchanges by a butterfly inside of the warp.
  void Shuffle(const ThreadDigit& digit, const Buffer& acc, int64_t results,
               std::vector<Stmt>* stmts) {
    for (int64_t step = digit.stride; step < digit.extent * digit.stride; step *= 2) {
      stmts->push_back(ForRegs("r", results, [&](const Expr& r) {
        Expr other =
            ir::Call(type_, "shfl_xor", {ir::Load(acc, {r}), ir::Const(ir::dtypes::kInt32, step)});
        return ir::Store(acc, {r}, reduction_.Combine(ir::Load(acc, {r}), other), op_->span);
      }));
    }
  }

  // Exchanges through shared memory: every thread writes its partial results, and each reads the
  // results of its group. Many results go in rounds.
  void ThroughShared(const std::vector<ThreadDigit>& digits, const Buffer& acc, int64_t results,
                     std::vector<Stmt>* stmts) {
    constexpr int64_t kMostBytes = 32 << 10;
    int64_t threads = ctx_->threads.count;
    int64_t round = std::clamp<int64_t>(kMostBytes / (threads * ir::Bytes(type_)), 1, results);
    Buffer scratch(String(std::string(acc->name) + "_smem"), type_,
                   {ir::Const(ir::dtypes::kInt32, threads * round)}, {}, "shared.dyn",
                   ScratchAttrs(), op_->span);
    Expr self = ctx_->thread - ir::Const(ir::dtypes::kInt32, ctx_->threads.begin);
    auto slot = [&](const Expr& thread, const Expr& r) {
      return ctx_->analyzer->Simplify(r * ir::Const(ir::dtypes::kInt32, threads) + thread);
    };
    stmts->push_back(ir::Alloc(scratch, op_->span));
    // The group's first thread has this thread's index without the digits.
    Expr first = self;
    for (const ThreadDigit& digit : digits) {
      Expr place = ir::FloorMod(ir::FloorDiv(self, ir::Const(ir::dtypes::kInt32, digit.stride)),
                                ir::Const(ir::dtypes::kInt32, digit.extent));
      first = first - place * ir::Const(ir::dtypes::kInt32, digit.stride);
    }
    first = ctx_->analyzer->Simplify(first);
    for (int64_t begin = 0; begin < results; begin += round) {
      int64_t count = std::min(round, results - begin);
      auto result = [&](const Expr& r) { return r + ir::Const(ir::dtypes::kInt32, begin); };
      stmts->push_back(ForRegs("r", count, [&](const Expr& r) {
        return ir::Store(scratch, {slot(self, r)}, ir::Load(acc, {result(r)}), op_->span);
      }));
      stmts->push_back(ForRegs("r", count, [&](const Expr& r) {
        return GroupSum(digits, acc, result(r), count, first, [&](const Expr& thread) -> Expr {
          return ir::Load(scratch, {slot(thread, r)});
        });
      }));
    }
  }

  // Combines into acc[r] the partial results of the thread's group, as for `results` values of r.
  // `partial` reads the result of a thread.
  template <typename Partial>
  Stmt GroupSum(const std::vector<ThreadDigit>& digits, const Buffer& acc, const Expr& r,
                int64_t results, const Expr& first, Partial partial) {
    // ptxas loads everything ahead in unrolled loops, for which registers must suffice.
    constexpr int64_t kMostLoads = 128;
    constexpr int64_t kLoadsAhead = 8;
    Var m("m", ir::dtypes::kInt32, op_->span);
    Expr thread = first;
    Expr rest = m;
    int64_t members = 1;
    bool all_exist = true;
    for (const ThreadDigit& digit : digits) {
      Expr place = ir::FloorMod(rest, ir::Const(ir::dtypes::kInt32, digit.extent));
      rest = ir::FloorDiv(rest, ir::Const(ir::dtypes::kInt32, digit.extent));
      thread = thread + place * ir::Const(ir::dtypes::kInt32, digit.stride);
      members *= digit.extent;
      all_exist = all_exist && ctx_->threads.count % (digit.extent * digit.stride) == 0;
    }
    arith::Analyzer::Scope scope(ctx_->analyzer);
    ctx_->analyzer->Bind(m, 0, ir::Const(ir::dtypes::kInt32, members));
    Expr value = partial(thread);
    if (!all_exist) {
      Expr exists = thread < ir::Const(ir::dtypes::kInt32, ctx_->threads.count);
      value = ir::Select(ctx_->analyzer->Simplify(exists), value, reduction_.Identity());
    }
    Stmt step = ir::Store(acc, {r}, reduction_.Combine(ir::Load(acc, {r}), value), op_->span);
    Map<String, Any> annotations;
    if (members * results > kMostLoads) annotations.Set("unroll_factor", kLoadsAhead);
    return ir::MakeSeq({ir::Store(acc, {r}, reduction_.Identity(), op_->span),
                        ir::For(m, 0, ir::Const(ir::dtypes::kInt32, members),
                                ir::ForKind::kUnrolled, step, annotations, op_->span)},
                       op_->span);
  }

  const ir::ReduceNode* op_;
  PhysicalBuffers* buffers_;
  Context* ctx_;
  Fragment src_;
  Fragment dst_;
  RowExchange exchange_;
  Reduction reduction_;
  DType type_;
};

// Reduces through copies: a copy of the source if threads cannot exchange its rows, and a copy of
// the result if it is a slice or has another layout than the reduction gives.
Stmt ThroughTwins(const TileInstruction* instruction, const ir::ReduceNode* op, Context* ctx) {
  std::vector<Stmt> stmts;
  Region src = op->src;
  Fragment needed = ReductionSource(op, ctx).Reshape(*ir::AsInts(src->extents));
  if (!LayoutOf(src, ctx).SameMap(needed)) {
    src = StageRegion(src, "_rows", &stmts);
    ctx->layouts->Set(src->buffer, needed, op->span);
    Relayout(op->src, src, op->span, ctx, &stmts);
  }
  bool own = !ReduceMismatch(op, ctx).empty();
  Region dst = own ? StageRegion(op->dst, "_part", &stmts) : op->dst;
  ir::Reduce twin(op, src, dst);
  InferReduce(twin.get(), InferLevel::kCommon, ctx);
  if (own && !op->clear) Relayout(op->dst, dst, op->span, ctx, &stmts);
  stmts.push_back(WithPlanOf(instruction, twin, ctx));
  if (own) Relayout(dst, op->dst, op->span, ctx, &stmts);
  return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

// Reduces the registers of each thread, then by warp shuffles, then through shared memory.
class ThreadReduceInstruction : public TileInstruction {
 public:
  const char* Name() const override { return "threads"; }
  Engine engine() const override { return Engine::kThreads; }

  bool IsFor(const ir::TileOpNode* op) const override {
    return op->kind == ir::StmtKind::kReduce && !ScanOf(AsReduce(op));
  }
  void InferLayout(const ir::TileOpNode* op, InferLevel level, Context* ctx) const override {
    InferReduce(AsReduce(op), level, ctx);
  }
  PlanResult MakePlan(const ir::TileOpNode* op, Context* ctx) const override {
    const ir::ReduceNode* reduce = AsReduce(op);
    std::string reason = ReductionObstacle(SourceFragment(reduce, ctx), reduce->dim, ctx->threads);
    if (reason.empty()) reason = ReduceMismatch(reduce, ctx);
    if (!reason.empty()) return {TilePlan(), reason};
    return {TilePlan(ffi::make_object<TilePlanNode>(this, ctx->threads)), ""};
  }
  Alternative Otherwise(const ir::TileOpNode* op, Context* ctx) const override {
    return {ThroughTwins(this, AsReduce(op), ctx), "", /*needs_layouts=*/false};
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
