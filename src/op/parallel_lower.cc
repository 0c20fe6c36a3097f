// Lowers parallel loops to thread IR.
#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "arith/lazy_loads.h"
#include "arith/structural.h"
#include "ir/async.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/unaligned_vectors.h"
#include "layout/symbolic.h"
#include "op/access.h"
#include "op/copy_async.h"
#include "op/index_eval.h"
#include "op/narrow_rows.h"
#include "op/store_matrix.h"
#include "op/vectorize.h"
#include "target/warp.h"

namespace tilelang::op {

namespace {

// Returns the registers of a fragment access as a function of the loop's register slot, if they do
// not depend on the thread.
std::optional<Layout> RegistersBySlot(const ParallelInfo& info, const Access& access,
                                      const Fragment& loop, Context* ctx) {
  auto elements = info.TouchedElements(access, [](const Var&) { return std::optional<int64_t>(); });
  if (!elements) return std::nullopt;
  Fragment f = *ctx->layouts->GetFragment(access.buffer);
  std::vector<int64_t> values(loop->RegsPerThread(), -1);
  for (size_t i = 0; i < elements->size(); ++i) {
    int64_t& value = values[loop->reg->At(static_cast<int64_t>(i))];
    int64_t reg = f->reg->At((*elements)[i]);
    if (value >= 0 && value != reg) return std::nullopt;
    value = reg;
  }
  for (int64_t value : values) {
    if (value < 0) return std::nullopt;
  }
  Layout layout = Layout::FromValues({static_cast<int64_t>(values.size())}, values);
  if (layout->IsTable()) return std::nullopt;
  return layout;
}

// Returns the condition outside of which the loop does nothing, if the condition reads registers of
// the thread that decide for several elements at once, such as rows of a matrix.
std::optional<Expr> CommonCondition(const ParallelInfo& info) {
  const ir::ParallelForNode* loop = info.loop();
  const auto* branch = loop->body.as<ir::IfNode>();
  if (branch == nullptr || branch->else_case.defined() || info.WritesMemory()) return std::nullopt;
  bool registers = true;
  ir::WalkExprs(branch->condition, [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    registers &= e->kind != ir::ExprKind::kCall &&
                 (load == nullptr || load->buffer.IsFragment() || load->buffer.IsLocal());
    for (const Access& access : info.accesses()) {
      registers &= load == nullptr || !access.is_write || !access.buffer.same_as(load->buffer);
    }
    return registers;
  });
  bool in_common = false;
  for (size_t d = 0; d < loop->vars.size(); ++d) {
    in_common |= info.extents()[d] > 1 && !ir::UsesVar(branch->condition, loop->vars[d]);
  }
  return registers && in_common ? std::optional<Expr>(branch->condition) : std::nullopt;
}

// Returns whether the body has effects on registers only, whatever the values are that it computes
// with.
bool OnlyComputes(const Stmt& body) {
  bool computes = true;
  ir::WalkStmts(body, [&](const Stmt& s) {
    computes &= s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kBind ||
                s->kind == ir::StmtKind::kStore || s->kind == ir::StmtKind::kIf;
    return computes;
  });
  ir::WalkExprs(body, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    const auto* op = e.as<ir::BinaryNode>();
    bool divides = op != nullptr && ir::IsIntegral(op->a.dtype()) && !ir::AsInt(op->b) &&
                   (op->Op() == ir::BinaryOp::kFloorDiv || op->Op() == ir::BinaryOp::kFloorMod);
    computes &= (call == nullptr || arith::IsPureCall(call)) && !divides;
    return computes;
  });
  return computes;
}

// Iterations of a thread from which on it pays to have the loop twice, with and without bounds:
// each element that is tested and loaded becomes a branch of its own.
constexpr int64_t kFewestChecks = 4;

class ParallelLowerer : public AccessLowerer {
 public:
  ParallelLowerer(const ParallelInfo& info, const Fragment& layout, PhysicalBuffers* buffers,
                  Context* ctx)
      : AccessLowerer(buffers, ctx), info_(info), layout_(layout) {}

  Stmt Lower() {
    width_ = VectorWidthIn(info_, layout_, ctx_);
    if (width_ > 1) {
      Vectors vectors = VectorsOf(info_, width_, ctx_);
      vectors_ = vectors.buffers;
      unaligned_ = vectors.unaligned;
      ragged_ = vectors.ragged;
      choices_ = vectors.choices;
    }
    if (unaligned_.empty()) RemarkNarrowRows(info_, width_, ctx_);
    if (!ragged_.empty()) return LowerRagged();
    Stmt all = LowerGroups(info_.loop()->body);
    if (width_ > 1) return all;
    auto condition = CommonCondition(info_);
    bool whole_warps = ctx_->threads.count % kWarp == 0;
    if (condition && whole_warps) return ByWarpsIn(*condition, all);
    if (layout_->RegsPerThread() < kFewestChecks) return all;
    // A thread tests what is the same in all of its iterations once.
    for (const RaggedCondition& bound : BoundsOf(info_.loop(), ctx_)) {
      if (UsesAny(bound.condition, moving_)) ragged_.push_back(bound);
    }
    return ragged_.empty() ? all : WithWhole(all);
  }

  using AccessLowerer::Rewrite;
  Stmt Rewrite(const ir::StoreNode* op) override {
    return DividedByReplica(ffi::GetRef<Stmt>(op), AccessLowerer::Rewrite(op));
  }
  Stmt Rewrite(const ir::EvaluateNode* op) override {
    return DividedByReplica(ffi::GetRef<Stmt>(op), AccessLowerer::Rewrite(op));
  }
  Stmt MutateStmt(const Stmt& s) override {
    Stmt lowered = AccessLowerer::MutateStmt(s);
    return ir::IsOrdering(s) ? DividedByReplica(s, lowered) : lowered;
  }
  Expr Rewrite(const ir::VarNode* op) override {
    auto it = coords_.find(ffi::GetRef<Var>(op));
    return it == coords_.end() ? ffi::GetRef<Expr>(op) : (*it).second;
  }
  Expr Rewrite(const ir::BinaryNode* op) override {
    if (whole_ && FindRagged(op)) return ir::Const(ir::dtypes::kBool, 1);
    return AccessLowerer::Rewrite(op);
  }
  Expr Rewrite(const ir::SelectNode* op) override {
    bool by_lane = std::find(choices_.begin(), choices_.end(), op) != choices_.end();
    Expr condition = AtFirstLane(Mutate(op->condition), arith::DecidesOnLoads(op) && !by_lane);
    if (auto value = ir::AsInt(condition)) {
      return Mutate(*value != 0 ? op->true_value : op->false_value);
    }
    const auto* load = op->true_value.as<ir::LoadNode>();
    if (load == nullptr || !IsGuarded(load)) {
      return ir::Select(condition, Mutate(op->true_value), Mutate(op->false_value), op->span);
    }
    Expr guarded = AccessLowerer::Rewrite(load);
    return ir::Select(valid_ && condition, guarded, Mutate(op->false_value), op->span);
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    Expr load = AccessLowerer::Rewrite(op);
    return IsGuarded(op) ? Expr(ir::Select(valid_, load, ir::Const(op->dtype, 0))) : load;
  }

 protected:
  Expr FragmentIndex(const ffi::Object* node, const Buffer& buffer, const Array<Expr>& indices,
                     const Span& span) override {
    for (const Access& access : info_.accesses()) {
      if (access.node != node) continue;
      auto registers = RegistersBySlot(info_, access, layout_, ctx_);
      if (!registers) break;
      Expr slot = width_ > 1 ? slot_ + lane_ : slot_;
      return ctx_->analyzer->Simplify(layout::ForwardExpr(*registers, {slot}));
    }
    Fragment f = *ctx_->layouts->GetFragment(buffer);
    return ctx_->analyzer->Simplify(
        layout::RegExpr(f, std::vector<Expr>(indices.begin(), indices.end())));
  }

  // The lanes of a vector follow each other wherever the layout puts their first element.
  Expr MemoryIndex(const Buffer& buffer, const Array<Expr>& original,
                   const Array<Expr>& indices) override {
    if (!MovesAsVector(buffer, original)) {
      return AccessLowerer::MemoryIndex(buffer, original, indices);
    }
    Map<Var, Expr> first;
    first.Set(lane_, ir::Expr(0));
    Array<Expr> start;
    for (const Expr& e : indices) start.push_back(ir::Substitute(e, first));
    Expr offset = buffers_->Offset(buffer, start, ctx_->analyzer);
    return offset + ir::CastTo(offset.dtype(), lane_);
  }

 private:
  bool MovesAsVector(const Buffer& buffer, const Array<Expr>& indices) const {
    const Var& last = info_.loop()->vars.back();
    bool follows = std::any_of(indices.begin(), indices.end(),
                               [&](const Expr& e) { return ir::UsesVar(e, last); });
    return follows && ir::HasSame(vectors_, buffer);
  }

  bool FindRagged(const ir::BinaryNode* op) const {
    return std::any_of(ragged_.begin(), ragged_.end(),
                       [&](const RaggedCondition& ragged) { return ragged.condition.get() == op; });
  }

  // Lowers to vectors where the conditions hold for a whole group, and to elements elsewhere.
  Stmt LowerRagged() {
    Stmt by_group = LowerGroups(info_.loop()->body);
    return layout_->RegsPerThread() == width_ ? by_group : WithWhole(by_group);
  }

  // Returns the loop in two versions: where the conditions hold in the whole loop, no iteration
  // tests them.
  Stmt WithWhole(const Stmt& by_group) {
    Expr everywhere = ir::Const(ir::dtypes::kBool, 1);
    for (const RaggedCondition& ragged : ragged_) {
      if (!ragged.everywhere.defined()) return by_group;
      everywhere = everywhere && ragged.everywhere;
    }
    everywhere = ctx_->analyzer->Simplify(everywhere);
    if (ir::IsConst(everywhere, 0)) return by_group;
    whole_ = true;
    Stmt all = LowerGroups(info_.loop()->body);
    whole_ = false;
    return ir::If(everywhere, all, by_group, info_.loop()->span);
  }

  // Lowers a group of which some iterations may be outside.
  Stmt Group(const Stmt& body) {
    if (ragged_.empty() || whole_) return Vectorize(body);
    Expr inside = ir::Const(ir::dtypes::kBool, 1);
    for (const RaggedCondition& ragged : ragged_) {
      Map<Var, Expr> end;
      end.Set(lane_, ir::Const(ir::dtypes::kInt32, ragged.at_last ? width_ - 1 : 0));
      inside = inside && ir::Substitute(Mutate(ragged.condition), end);
    }
    whole_ = true;
    Stmt vectors = Vectorize(body);
    whole_ = false;
    return ir::If(ctx_->analyzer->Simplify(inside), vectors, ByElement(body), body.span());
  }

  // Lowers each iteration of a group on its own.
  Stmt ByElement(const Stmt& body) {
    Array<Buffer> vectors = std::exchange(vectors_, {});
    by_element_ = true;
    Var lane("v", ir::dtypes::kInt32, body.span());
    Map<Var, Expr> own;
    own.Set(lane_, lane);
    Stmt element = OncePerElement(ir::Substitute(MutateStmt(body), own));
    by_element_ = false;
    vectors_ = std::move(vectors);
    return ir::For(lane, 0, ir::Const(ir::dtypes::kInt32, width_), ir::ForKind::kUnrolled, element,
                   {}, body.span());
  }

  // Lets a warp skip the loop if the condition holds nowhere in it.
  Stmt ByWarpsIn(const Expr& condition, const Stmt& all) {
    const Span& span = info_.loop()->span;
    Buffer some("some", ir::dtypes::kBool, {Expr(1)}, {}, "local", {}, span);
    Stmt find =
        LowerGroups(ir::Store(some, {Expr(0)}, ir::Load(some, {Expr(0)}) || condition, span));
    Buffer found = buffers_->Get(some);
    Stmt begin = ir::Store(found, {Expr(0)}, ir::Const(ir::dtypes::kBool, 0), span);
    Expr any = ir::Call(ir::dtypes::kBool, "any_sync", {ir::Load(found, {Expr(0)})});
    return ir::Seq({ir::Alloc(found, span), begin, find, ir::If(any, all, Stmt(), span)}, span);
  }

  // Lowers the loop with this body, by groups of width_ elements.
  Stmt LowerGroups(const Stmt& loop_body) {
    const ir::ParallelForNode* loop = info_.loop();
    size_t rank = info_.extents().size();
    int64_t regs = layout_->RegsPerThread();
    arith::Analyzer::Scope scope(ctx_->analyzer);
    Var group("r", ir::dtypes::kInt32, loop->span);
    ctx_->analyzer->Bind(group, 0, ir::Const(ir::dtypes::kInt32, regs / width_));
    lane_ = Var("v", ir::dtypes::kInt32, loop->span);
    ctx_->analyzer->Bind(lane_, 0, ir::Const(ir::dtypes::kInt32, width_));
    slot_ = group * ir::Const(ir::dtypes::kInt32, width_);
    moving_.clear();
    layout::SlotExprs at = layout::InverseExprs(layout_, ctx_->thread, slot_,
                                                ctx_->threads.begin + ctx_->threads.count);
    std::vector<Stmt> body;
    for (size_t d = 0; d < rank; ++d) {
      // The loop variable keeps its name, so that the generated code reads like the kernel.
      Var name(loop->vars[d]->name, ir::dtypes::kInt32, loop->span);
      Expr value = ctx_->analyzer->Simplify(at.coord[d]);
      body.push_back(ir::Bind(name, value, loop->span));
      ctx_->analyzer->Bind(name, value);
      if (ir::UsesVar(value, group)) moving_.push_back(loop->vars[d]);
      Expr coord = d + 1 == rank && width_ > 1 ? name + lane_ : Expr(name);
      coords_.Set(loop->vars[d], ir::CastTo(loop->vars[d].dtype(), coord));
    }
    replica_ = at.rep.defined() ? ctx_->analyzer->Simplify(at.rep) : Expr(0);
    bool replicated = !ir::IsConst(replica_, 0);
    if (replicated && info_.MustRunOnce()) RefuseReplicas();
    divided_ = replicated && info_.WritesRegisters() && info_.WritesMemory();
    Expr valid = at.valid.defined() ? ctx_->analyzer->Simplify(at.valid) : Expr();
    if (valid.defined() && ir::IsTrue(valid)) valid = Expr();
    if (valid.defined() && IsHarmlessElsewhere()) valid_ = valid;
    body.push_back(Group(loop_body));
    Stmt inner = ir::Seq(Array<Stmt>(body.begin(), body.end()), loop->span);
    if (valid.defined() && !valid_.defined()) inner = ir::If(valid, inner, Stmt(), loop->span);
    valid_ = Expr();
    // A single thread runs all elements, and it has no fragments, whose registers must be
    // constants. The loop is therefore unrolled only in part.
    Map<String, Any> notes;
    if (ctx_->threads.count == 1) notes.Set("unroll_factor", int64_t{4});
    return ir::For(group, 0, ir::Const(ir::dtypes::kInt32, regs / width_), ir::ForKind::kUnrolled,
                   inner, notes, loop->span);
  }

  // Returns whether threads and slots without an iteration may run one. They may if it loads
  // nothing and its result goes to registers that hold no element. A condition would keep the
  // device compiler from merging the loop with its neighbours, which takes up to three times the
  // registers.
  bool IsHarmlessElsewhere() const {
    const std::vector<Access>& accesses = info_.accesses();
    return ragged_.empty() && OnlyComputes(info_.loop()->body) &&
           std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
             if (IsMemory(access.buffer)) return !access.is_write && width_ > 1;
             return access.buffer.IsFragment() && (!access.is_write || info_.DirectAxes(access)) &&
                    RegistersBySlot(info_, access, layout_, ctx_);
           });
  }

  static bool IsMemory(const Buffer& buffer) { return buffer.IsGlobal() || buffer.IsShared(); }

  bool IsGuarded(const ir::LoadNode* load) const {
    return valid_.defined() && IsMemory(load->buffer);
  }

  // Writes one loop over the lanes for each store, inside of the conditions.
  Stmt Vectorize(const Stmt& s) {
    if (IsCopyAsync(info_.loop())) {
      Stmt copy = AsCopyAsync(s);
      if (copy.defined()) return OncePerElement(copy);
    }
    if (width_ == 1) return OncePerElement(MutateStmt(s));
    if (const auto* seq = s.as<ir::SeqNode>()) {
      std::vector<Stmt> stmts;
      for (const Stmt& inner : seq->stmts) stmts.push_back(Vectorize(inner));
      return ir::MakeSeq(stmts, seq->span);
    }
    if (const auto* op = s.as<ir::IfNode>()) {
      Stmt else_case = op->else_case.defined() ? Vectorize(op->else_case) : Stmt();
      Expr condition = AtFirstLane(Mutate(op->condition), true);
      if (ir::IsTrue(condition)) return Vectorize(op->then_case);
      return ir::If(condition, Vectorize(op->then_case), else_case, op->span);
    }
    // Each loop has a variable of its own.
    Var lane("v", ir::dtypes::kInt32, s.span());
    Map<Var, Expr> own;
    own.Set(lane_, lane);
    // The store of a vector stands alone in its loop, and conditions go around the loop.
    bool divided = divided_;
    divided_ = divided && s->kind != ir::StmtKind::kStore;
    Stmt body = ir::Substitute(MutateStmt(s), own);
    divided_ = divided;
    Array<Buffer> vectors = PhysicalIn(s, vectors_);
    Expr lanes = ir::Const(ir::dtypes::kInt32, width_);
    Stmt loop = vectors.empty()
                    ? ir::For(lane, 0, lanes, ir::ForKind::kUnrolled, body, {}, s.span())
                    : ir::WithUnaligned(ir::VectorLoop(lane, lanes, body, vectors, s.span()),
                                        PhysicalIn(s, unaligned_));
    return OncePerElement(s->kind == ir::StmtKind::kStore ? DividedByReplica(s, loop) : loop);
  }

  // Returns the physical buffers of `of` that the statement uses.
  Array<Buffer> PhysicalIn(const Stmt& s, const Array<Buffer>& of) const {
    Array<Buffer> physical;
    for (const Buffer& buffer : of) {
      if (ir::UsesBuffer(s, buffer)) physical.push_back(buffers_->Get(buffer));
    }
    return physical;
  }

  // Returns the statement as one copy of width_ elements. Returns null if they are not next to each
  // other, or too few for an instruction.
  Stmt AsCopyAsync(const Stmt& s) {
    const auto* store = s.as<ir::StoreNode>();
    const ir::LoadNode* load = store != nullptr ? CopiedLoad(store->value) : nullptr;
    bool apart = load != nullptr && !(MovesAsVector(load->buffer, load->indices) &&
                                      MovesAsVector(store->buffer, store->indices));
    if (width_ > 1 && apart) return Stmt();
    Map<Var, Expr> first;
    first.Set(lane_, ir::Expr(0));
    bool ordered = info_.loop()->annotations[kCopyAsync].cast<bool>();
    Stmt copy = CopyAsync(ir::Substitute(MutateStmt(s), first), width_, ordered);
    if (!copy.defined()) {
      Remark(s.span(), "copy",
             std::string(store->buffer->name) + " is not copied by cp.async: " +
                 std::to_string(width_ * ir::Bytes(store->buffer->dtype)) +
                 " bytes of it are known to be contiguous, but the instruction copies 4, 8 or 16; "
                 "and it can only write zeros where the tensor ends");
    }
    return copy;
  }

  // If several threads run the same iteration, the first of them accesses memory outside of the
  // threads. A body that writes registers too is divided statement by statement.
  Stmt OncePerElement(Stmt lowered) const {
    bool by_first = !ir::IsConst(replica_, 0) && info_.WritesMemory() && !divided_;
    return by_first ? ByFirstReplica(std::move(lowered)) : lowered;
  }

  Stmt DividedByReplica(const Stmt& original, Stmt lowered) const {
    const auto* store = original.as<ir::StoreNode>();
    bool own = store != nullptr && (store->buffer.IsFragment() || store->buffer.IsLocal());
    return divided_ && !own ? ByFirstReplica(std::move(lowered)) : lowered;
  }

  Stmt ByFirstReplica(Stmt lowered) const {
    Span span = lowered.span();
    return ir::If(ir::MakeEq(replica_, ir::Const(replica_.dtype(), 0)), std::move(lowered), Stmt(),
                  span);
  }

  [[noreturn]] void RefuseReplicas() const {
    TL_USER_ERROR(kLayout, info_.loop()->span,
                  "every thread runs all iterations of this loop (it indexes an array private to a "
                  "thread), but it also reads memory that it writes, or uses what an atomic "
                  "operation returns; split it in two loops");
  }

  // Writes a condition that VectorWidth found to be the same for all lanes without the lane.
  Expr AtFirstLane(const Expr& condition, bool uniform) {
    if (width_ == 1 || by_element_ || !uniform) return condition;
    Map<Var, Expr> first;
    first.Set(lane_, ir::Expr(0));
    return ctx_->analyzer->Simplify(ir::Substitute(condition, first));
  }

  const ParallelInfo& info_;
  Fragment layout_;
  int64_t width_ = 1;
  Array<Buffer> vectors_;    // accessed by vectors, where the last variable is used
  Array<Buffer> unaligned_;  // the buffers of vectors_ in which vectors begin anywhere
  Var lane_;
  Expr slot_;
  Expr valid_;  // where loads of memory are iterations of the loop; undefined where all are
  Expr replica_;
  Array<Var> moving_;  // variables of the loop that differ between iterations of a thread
  std::vector<RaggedCondition> ragged_;
  std::vector<const ir::SelectNode*> choices_;  // of each lane
  bool whole_ = false;                          // the ragged conditions hold
  bool by_element_ = false;                     // iterations of a group are lowered on their own
  bool divided_ = false;  // among the threads that run an iteration: the first writes memory
  Map<Var, Expr> coords_;
};

}  // namespace

Stmt LowerParallel(const ParallelInfo& info, const Fragment& loop_layout, PhysicalBuffers* buffers,
                   Context* ctx) {
  if (auto stored = StoreByMatrix(info, buffers, ctx)) return *stored;
  return ParallelLowerer(info, loop_layout, buffers, ctx).Lower();
}

}  // namespace tilelang::op
