#include "op/vectorize.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "arith/lazy_loads.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/access.h"
#include "op/copy_async.h"
#include "op/index_eval.h"
#include "op/unaligned.h"

namespace tilelang::op {

namespace {

// kUnaligned stands for consecutive elements that do not begin at a multiple of the width.
enum class Shape { kInvariant, kContiguous, kUnaligned, kOther };

// Number of one-byte elements in a vector of 16 bytes.
constexpr int64_t kMostLanes = 16;

// Examines a loop body for runs of `width` iterations of `var`, the first at `min`. With
// `conditions_once`, conditions are evaluated once for a run and not for every lane.
class Vectorizer : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  // `extent` is the extent of the variable, which counts from 0 and is divided into groups; 0
  // stands for one run alone. `ragged` is the loop if its conditions may be ragged. With
  // `anywhere`, runs of elements may begin anywhere if there are instructions for that.
  Vectorizer(Var var, Expr min, int64_t extent, bool conditions_once,
             const ir::ParallelForNode* ragged, bool anywhere, Context* ctx)
      : var_(std::move(var)),
        min_(std::move(min)),
        extent_(extent),
        conditions_once_(conditions_once),
        ragged_loop_(ragged),
        anywhere_(anywhere),
        ctx_(ctx) {}

  // Returns whether the body has a form in which its stores can run one after the other, each for
  // all lanes, with conditions and stores that lanes do not share.
  bool Examine(const Stmt& body, int64_t width) {
    width_ = width;
    ok_ = true;
    uses_.clear();
    unaligned_.clear();
    obstacles_.clear();
    ragged_.clear();
    choices_.clear();
    longest_ = 0;
    VisitStmt(body);
    return ok_;
  }
  // Returns, after Examine, the buffers whose accesses by the variable are all aligned vectors.
  Array<Buffer> Vectors() const {
    Array<Buffer> vectors;
    for (const Use& use : uses_) {
      if (use.is_vector) vectors.push_back(use.buffer);
    }
    return vectors;
  }
  // Returns the buffers of Vectors() in which vectors begin anywhere.
  const Array<Buffer>& Unaligned() const { return unaligned_; }
  // Returns the runs of elements that are no vectors because they may begin anywhere.
  const std::vector<Access>& Obstacles() const { return obstacles_; }
  const std::vector<RaggedCondition>& Ragged() const { return ragged_; }
  // Returns the choices that each lane makes for itself.
  const std::vector<const ir::SelectNode*>& Choices() const { return choices_; }
  // Returns the bytes of the longest vector.
  int64_t Longest() const { return longest_; }
  // Returns how often kMostLanes iterations access the buffers, counted for each buffer.
  int64_t Accesses() const {
    return std::accumulate(uses_.begin(), uses_.end(), int64_t{0},
                           [this](int64_t sum, const Use& use) {
                             return sum + (use.is_vector ? kMostLanes / width_ : kMostLanes);
                           });
  }

  void VisitStmt(const Stmt& s) override {
    switch (s->kind) {
      case ir::StmtKind::kSeq:
      case ir::StmtKind::kIf:
      case ir::StmtKind::kStore:
        StmtVisitor::VisitStmt(s);
        break;
      default:
        ok_ = false;
    }
  }
  void Visit(const ir::IfNode* op) override {
    RequireUniform(op->condition);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::SelectNode* op) override {
    VisitExpr(op->condition);
    bool decides = arith::DecidesOnLoads(op);
    bool each = !conditions_once_ || (ragged_loop_ != nullptr && IsOfLane(op->condition));
    if (!each && decides) RequireUniform(op->condition);
    bool by_lane = each && decides && ir::UsesVar(op->condition, var_);
    if (by_lane) choices_.push_back(op);
    Within(op->true_value, by_lane);
    Within(op->false_value, by_lane);
  }
  void Visit(const ir::BinaryNode* op) override {
    bool lazy = op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr;
    VisitExpr(op->a);
    Within(op->b, lazy && ir::UsesVar(op->a, var_));
  }
  void Visit(const ir::LoadNode* op) override {
    Note({op->buffer, op->indices, false, op->span, op, {}});
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::StoreNode* op) override {
    Note({op->buffer, op->indices, true, op->span, op, {}});
    // Iterations that all write one element are not a vector store.
    if (Classify(op->buffer, op->indices) == Shape::kInvariant) ok_ = false;
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kAddressOf)) ok_ = false;
    StmtVisitor::Visit(op);
  }

 private:
  struct Use {
    Buffer buffer;
    bool is_vector;
  };

  // Visits an operand that, if `by_lane`, may not be evaluated for each lane.
  void Within(const Expr& e, bool by_lane) {
    bool outer = by_lane_;
    by_lane_ = by_lane_ || by_lane;
    VisitExpr(e);
    by_lane_ = outer;
  }

  void Note(const Access& access) {
    const Buffer& buffer = access.buffer;
    if (!buffer.IsGlobal() && !buffer.IsShared()) return;
    Shape shape = Classify(buffer, access.indices);
    if (shape == Shape::kInvariant) return;
    bool is_vector = (shape == Shape::kContiguous || BeginsAnywhere(access, shape)) && !by_lane_;
    if (is_vector) longest_ = std::max(longest_, width_ * ir::Bytes(buffer->dtype));
    for (Use& use : uses_) {
      if (!use.buffer.same_as(buffer)) continue;
      use.is_vector = use.is_vector && is_vector;
      return;
    }
    uses_.push_back({buffer, is_vector});
  }

  // Returns whether a run of elements may be a vector that begins anywhere, and notes the answer.
  bool BeginsAnywhere(const Access& access, Shape shape) {
    if (shape != Shape::kUnaligned) return false;
    if (!anywhere_ || !MayBeginAnywhere(access, width_, ragged_loop_, ctx_)) {
      obstacles_.push_back(access);
      return false;
    }
    if (by_lane_) return true;
    unaligned_.push_back(access.buffer);
    if (access.is_write) return true;
    for (const RaggedCondition& bound : BoundsOfUnaligned(access, width_, ragged_loop_, ctx_)) {
      ragged_.push_back(bound);
    }
    return true;
  }

  // Returns the multiple at which a vector begins, in elements. A vector moves in chunks of the
  // largest power of two that divides its bytes, at most 16.
  int64_t Alignment(const Buffer& buffer) const {
    int64_t element = ir::Bytes(buffer->dtype);
    int64_t bytes = width_ * element;
    return std::max<int64_t>(1, std::min<int64_t>(16, bytes & -bytes) / element);
  }

  Shape Classify(const Buffer& buffer, const Array<Expr>& indices) {
    bool used = false;
    for (const Expr& e : indices) used = used || ir::UsesVar(e, var_);
    if (!used) return Shape::kInvariant;
    if (buffer.IsShared()) {
      auto layout = ctx_->layouts->GetLayout(buffer);
      if (layout) return ClassifyLayout(*layout, indices, Alignment(buffer));
    }
    // The offset is linear in the indices.
    Expr offset = ir::Const(ir::dtypes::kInt64, 0);
    Array<Expr> strides = buffer.Strides();
    for (size_t d = 0; d < indices.size(); ++d) {
      offset = offset + ir::CastTo(ir::dtypes::kInt64, indices[d]) *
                            ir::CastTo(ir::dtypes::kInt64, strides[d]);
    }
    auto stride = ctx_->analyzer->StrideOf(offset, var_);
    if (stride == 0) return Shape::kInvariant;
    if (stride != 1) return RunsInGroups(offset, Alignment(buffer));
    bool aligned = ctx_->analyzer->Divides(AtFirst(offset), Alignment(buffer));
    return aligned ? Shape::kContiguous : Shape::kUnaligned;
  }

  // Returns whether the offset grows by one in every group of `width`, from a multiple of the width
  // on. Elements of an image whose channels are such groups are an example: they are no line as a
  // whole.
  Shape RunsInGroups(const Expr& offset, int64_t alignment) {
    bool runs = InGroups([&](const Var& lane, const auto& at) {
      Expr first = at(offset, ir::Const(lane.dtype(), 0));
      return ctx_->analyzer->Divides(first, alignment) &&
             ctx_->analyzer->CanProveEqual(at(offset, lane),
                                           first + ir::CastTo(offset.dtype(), lane));
    });
    return runs ? Shape::kContiguous : Shape::kOther;
  }

  // Returns whether a value is the same in a group of `width`.
  bool SameInGroup(const Expr& e) {
    if (!ir::UsesVar(e, var_)) return true;
    return ir::IsIntegral(e.dtype()) && InGroups([&](const Var& lane, const auto& at) {
             return ctx_->analyzer->CanProveEqual(at(e, lane), at(e, ir::Const(lane.dtype(), 0)));
           });
  }

  // Returns whether proves(lane, at) holds, where at(e, n) is `e` in the n-th iteration of any
  // group.
  template <typename Proof>
  bool InGroups(const Proof& proves) {
    if (extent_ % width_ != 0 || extent_ == 0) return false;
    arith::Analyzer::Scope scope(ctx_->analyzer);
    Var group("group", var_.dtype()), lane("lane", var_.dtype());
    ctx_->analyzer->Bind(group, 0, ir::Const(var_.dtype(), extent_ / width_));
    ctx_->analyzer->Bind(lane, 0, ir::Const(var_.dtype(), width_));
    return proves(lane, [&](const Expr& e, const Expr& n) {
      Map<Var, Expr> place;
      place.Set(var_, group * ir::Const(var_.dtype(), width_) + n);
      return ir::Substitute(e, place);
    });
  }

  Shape ClassifyLayout(const Layout& layout, const Array<Expr>& indices, int64_t alignment) {
    size_t last = indices.size() - 1;
    for (size_t d = 0; d < last; ++d) {
      if (ir::UsesVar(indices[d], var_)) return Shape::kOther;
    }
    bool grouped = MatchVarPlusRest(indices[last], {var_}) && Divides(AtFirst(indices[last]));
    if (grouped && RunsAligned(layout, alignment)) return Shape::kContiguous;
    return layout->IsLinear() ? Shape::kUnaligned : Shape::kOther;
  }

  // Returns whether groups of `width` along the last dimension are consecutive and aligned in the
  // layout.
  bool RunsAligned(const Layout& layout, int64_t alignment) {
    auto [it, is_new] = runs_.try_emplace({layout.get(), width_, alignment}, false);
    if (!is_new) return it->second;
    int64_t row = layout->Extents().back();
    if (row % width_ != 0) return false;
    int64_t size = layout->Size();
    for (int64_t i = 0; i < size; i += width_) {
      int64_t base = layout->At(i);
      if (base % alignment != 0) return false;
      for (int64_t k = 1; k < width_; ++k) {
        if (layout->At(i + k) != base + k) return false;
      }
    }
    return it->second = true;
  }

  Expr AtFirst(const Expr& e) const {
    Map<Var, Expr> first;
    first.Set(var_, min_);
    return ir::Substitute(e, first);
  }

  bool Divides(const Expr& e) { return ctx_->analyzer->Divides(e, width_); }

  // Requires that the condition has one value for all iterations of an aligned group: it compares
  // var + rest with a bound, both multiples of the width, or it does not change in a group. A
  // ragged condition is allowed, too.
  void RequireUniform(const Expr& condition) {
    const auto* op = condition.as<ir::BinaryNode>();
    if (op != nullptr && op->Op() == ir::BinaryOp::kAnd) {
      RequireUniform(op->a);
      return RequireUniform(op->b);
    }
    if (Uniform(condition)) return;
    auto ragged = ragged_loop_ ? AsRagged(condition, ragged_loop_, ctx_) : std::nullopt;
    if (ragged) {
      ragged_.push_back(*std::move(ragged));
    } else {
      ok_ = false;
    }
  }
  // Returns whether the condition depends on the place of an iteration in its group alone, and is
  // not the same for all of them.
  bool IsOfLane(const Expr& condition) {
    int64_t holds = 0;
    bool known = InGroups([&](const Var& lane, const auto& at) {
      for (int64_t i = 0; i < width_; ++i) {
        auto value = ir::AsInt(ctx_->analyzer->Simplify(at(condition, ir::Const(lane.dtype(), i))));
        if (!value) return false;
        holds += *value;
      }
      return true;
    });
    return known && 0 < holds && holds < width_;
  }
  bool Uniform(const Expr& e) {
    if (!ir::UsesVar(e, var_)) return true;
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    if (op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr) {
      return Uniform(op->a) && Uniform(op->b);
    }
    auto steps = [&](const Expr& moving, const Expr& bound) {
      auto match = MatchVarPlusRest(moving, {var_});
      return match && Divides(match->rest) && !ir::UsesVar(bound, var_) && Divides(bound);
    };
    // var + rest < bound and bound <= var + rest change at a multiple of the width.
    if ((op->Op() == ir::BinaryOp::kLt || op->Op() == ir::BinaryOp::kGe) && steps(op->a, op->b)) {
      return true;
    }
    if ((op->Op() == ir::BinaryOp::kGt || op->Op() == ir::BinaryOp::kLe) && steps(op->b, op->a)) {
      return true;
    }
    return SameInGroup(op->a) && SameInGroup(op->b);
  }

  Var var_;
  Expr min_;
  int64_t extent_;
  bool conditions_once_;
  const ir::ParallelForNode* ragged_loop_;
  bool anywhere_;
  Context* ctx_;
  int64_t width_ = 1;
  bool ok_ = true;
  bool by_lane_ = false;  // inside an operand that only some lanes evaluate
  int64_t longest_ = 0;
  std::vector<Use> uses_;
  Array<Buffer> unaligned_;
  std::vector<Access> obstacles_;
  std::vector<RaggedCondition> ragged_;
  std::vector<const ir::SelectNode*> choices_;
  std::map<std::tuple<const ffi::Object*, int64_t, int64_t>, bool> runs_;
};

Vectorizer VectorizerOf(const ParallelInfo& info, bool anywhere, Context* ctx) {
  const Var& var = info.loop()->vars.back();
  Expr zero = ir::Const(var.dtype(), 0);
  // An asynchronous copy is copied as a whole, or filled with zeros.
  const ir::ParallelForNode* ragged = IsCopyAsync(info.loop()) ? nullptr : info.loop();
  return Vectorizer(var, zero, info.extents().back(), /*conditions_once=*/true, ragged,
                    anywhere && ragged != nullptr, ctx);
}

// Returns how many iterations, up to `limit`, run as one with the fewest accesses; of equal counts
// the largest. The longest vectors of one buffer may be no vectors of another, whose swizzle keeps
// 16 bytes together.
int64_t WidestVector(const ParallelInfo& info, int64_t limit, bool anywhere, Context* ctx) {
  Vectorizer vectorizer = VectorizerOf(info, anywhere, ctx);
  auto fits = [&](int64_t width) {
    return info.extents().back() % width == 0 && vectorizer.Examine(info.loop()->body, width) &&
           vectorizer.Obstacles().empty() && !vectorizer.Vectors().empty() &&
           vectorizer.Longest() <= 16;
  };
  int64_t best = 1;
  int64_t fewest = 0;
  for (int64_t width = 2; width <= std::min(limit, kMostLanes); width *= 2) {
    if (!fits(width) || (best > 1 && vectorizer.Accesses() > fewest)) continue;
    best = width;
    fewest = vectorizer.Accesses();
  }
  return best;
}

bool OnlyStores(const Stmt& s) {
  if (const auto* seq = s.as<ir::SeqNode>()) {
    return std::all_of(seq->stmts.begin(), seq->stmts.end(), OnlyStores);
  }
  return s->kind == ir::StmtKind::kStore;
}

}  // namespace

int64_t VectorWidth(const ParallelInfo& info, int64_t limit, Context* ctx) {
  return WidestVector(info, limit, /*anywhere=*/false, ctx);
}

int64_t VectorWidthIn(const ParallelInfo& info, const Fragment& layout, Context* ctx) {
  int64_t neighbours = layout->VectorWidth(info.extents().size() - 1);
  int64_t aligned = std::gcd(VectorWidth(info, kMostLanes, ctx), neighbours);
  if (aligned > 1) return aligned;
  int64_t width = std::gcd(WidestVector(info, kMostLanes, /*anywhere=*/true, ctx), neighbours);
  if (width == 1) return 1;
  Vectorizer vectorizer = VectorizerOf(info, /*anywhere=*/true, ctx);
  bool fits = vectorizer.Examine(info.loop()->body, width) && vectorizer.Obstacles().empty();
  // Shorter vectors are not worth shifting, and neither are vectors of which no lane has the next
  // one.
  bool stores =
      std::any_of(info.accesses().begin(), info.accesses().end(), [&](const Access& access) {
        const Array<Buffer>& unaligned = vectorizer.Unaligned();
        return access.is_write && ir::HasSame(unaligned, access.buffer);
      });
  bool next =
      info.extents().back() > width && layout->thread->At(width) == layout->thread->At(0) + 1;
  return fits && vectorizer.Longest() == 16 && (next || !stores) ? width : 1;
}

int64_t VectorBytes(const ParallelInfo& info, Context* ctx) {
  int64_t width = VectorWidth(info, kMostLanes, ctx);
  if (width == 1) return 0;
  Vectorizer vectorizer = VectorizerOf(info, /*anywhere=*/false, ctx);
  vectorizer.Examine(info.loop()->body, width);
  return vectorizer.Longest();
}

Vectors VectorsOf(const ParallelInfo& info, int64_t width, Context* ctx) {
  Vectorizer vectorizer = VectorizerOf(info, /*anywhere=*/true, ctx);
  bool fits = vectorizer.Examine(info.loop()->body, width) && vectorizer.Obstacles().empty();
  TL_CHECK(fits, info.loop()->span, "vectors of " << width << " elements do not fit the loop");
  return {vectorizer.Vectors(), vectorizer.Unaligned(), vectorizer.Ragged(), vectorizer.Choices()};
}

Stmt LowerVectorized(const ir::ForNode* loop, const Stmt& body, PhysicalBuffers* buffers,
                     Context* ctx) {
  arith::Analyzer::Scope scope(ctx->analyzer);
  ctx->analyzer->Bind(loop->var, loop->min, loop->extent);
  int64_t lanes = *ir::AsInt(loop->extent);
  Vectorizer vectorizer(loop->var, loop->min, 0, /*conditions_once=*/false, nullptr,
                        /*anywhere=*/false, ctx);
  Array<Buffer> vectors;
  if (lanes > 1 && OnlyStores(loop->body) && vectorizer.Examine(loop->body, lanes)) {
    for (const Buffer& buffer : vectorizer.Vectors()) vectors.push_back(buffers->Get(buffer));
    for (const Access& access : vectorizer.Obstacles()) {
      Remark(access.span.defined() ? access.span : loop->span, "vectorize",
             std::string(access.buffer->name) + " is accessed element by element: " +
                 ir::Print(ir::Load(access.buffer, access.indices)) +
                 " is not known to begin at a multiple of the vector's size");
    }
  }
  if (vectors.empty()) {
    return ir::For(loop->var, loop->min, loop->extent, ir::ForKind::kUnrolled, body, {},
                   loop->span);
  }
  Map<Var, Expr> shifted;
  shifted.Set(loop->var, loop->var + loop->min);
  return ir::VectorLoop(loop->var, loop->extent,
                        ir::IsConst(loop->min, 0) ? body : ir::Substitute(body, shifted), vectors,
                        loop->span);
}

}  // namespace tilelang::op
