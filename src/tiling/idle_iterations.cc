#include "tiling/idle_iterations.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/gemm.h"
#include "ir/launch_extent.h"
#include "ir/named_values.h"
#include "ir/visitor.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::BinaryOp;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<double> AsNumber(const Expr& e) {
  if (const auto* number = e.as<ir::FloatImmNode>()) return number->value;
  auto integer = ir::AsInt(e);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

// Returns whether two values of elements are the same: numbers, variables, and what is computed
// from these.
bool IsSame(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  auto x = AsNumber(a), y = AsNumber(b);
  if (x || y) return x && y && *x == *y;
  const auto *left = a.as<ir::BinaryNode>(), *right = b.as<ir::BinaryNode>();
  return left != nullptr && right != nullptr && left->Op() == right->Op() &&
         IsSame(left->a, right->a) && IsSame(left->b, right->b);
}

// An extent of a loop that grows with the index of a block: iterations from the first number n with
// `step` n >= `least` on do not run.
struct GrowingExtent {
  int64_t step = 1;
  Expr least;
};

class IdleFinder {
 public:
  IdleFinder(const ir::Func& func, const ir::KernelLaunchNode* launch, const ir::ForNode* loop,
             ir::Var block)
      : launch_(launch), loop_(loop), block_(std::move(block)) {
    analyzer_.BindParams(func->params);
    analyzer_.BindLaunch(launch);
  }

  bool Find() {
    auto extent = ExtentOf(analyzer_.Simplify(loop_->extent));
    if (!extent || !ir::IsConst(loop_->min, 0)) return false;
    extent_ = *extent;
    Run(loop_->body);
    if (!known_ || (takes_finite_ && !RunsInEachBlock())) return false;
    return std::all_of(written_.begin(), written_.end(), [&](const Buffer& tile) {
      return IsSame(ValueOf(tile), Before(tile)) || IsForgotten(tile);
    });
  }

 private:
  // Reads the extent, of which several may be the least.
  std::optional<GrowingExtent> ExtentOf(const Expr& e) {
    const auto* binary = e.as<ir::BinaryNode>();
    if (binary != nullptr && binary->Op() == BinaryOp::kMin) {
      bool left = Depends(binary->a), right = Depends(binary->b);
      return left == right ? std::nullopt : ExtentOf(left ? binary->a : binary->b);
    }
    if (binary != nullptr && binary->Op() == BinaryOp::kAdd && ir::AsInt(binary->b)) {
      auto extent = ExtentOf(binary->a);
      if (extent) extent->least = extent->least + binary->b * ir::Const(e.dtype(), extent->step);
      return extent;
    }
    GrowingExtent extent{1, e};
    if (binary != nullptr && binary->Op() == BinaryOp::kFloorDiv && ir::AsInt(binary->b)) {
      extent.step = *ir::AsInt(binary->b);
      extent.least = binary->a - ir::Const(e.dtype(), extent.step - 1);
    }
    auto grows = analyzer_.StrideOf(extent.least, block_);
    return grows && *grows > 0 && extent.step > 0 ? std::optional<GrowingExtent>(extent)
                                                  : std::nullopt;
  }
  bool Depends(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) { return part.same_as(block_); });
  }

  // Returns whether the first block, which has the fewest iterations, has one by this extent.
  bool RunsInEachBlock() {
    Expr least = ir::Substitute(extent_.least, {{block_, ir::Const(block_.dtype(), 0)}});
    return analyzer_.CanProveLess(ir::Const(least.dtype(), 0), analyzer_.Simplify(least));
  }

  bool IsFalse(const Expr& condition) { return IsAlways(false, condition); }
  bool IsTrue(const Expr& condition) { return IsAlways(true, condition); }

  // Returns whether a condition has the value in all iterations.
  bool IsAlways(bool value, const Expr& condition) {
    const auto* op = condition.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    switch (op->Op()) {
      case BinaryOp::kAnd:
      case BinaryOp::kBitAnd:  // of bools
        return value ? IsTrue(op->a) && IsTrue(op->b) : IsFalse(op->a) || IsFalse(op->b);
      case BinaryOp::kOr:
      case BinaryOp::kBitOr:
        return value ? IsTrue(op->a) || IsTrue(op->b) : IsFalse(op->a) && IsFalse(op->b);
      case BinaryOp::kGe:
        return value ? IsBelow(op->b - op->a, 1) : IsBelow(op->a - op->b, 0);
      case BinaryOp::kGt:
        return value ? IsBelow(op->b - op->a, 0) : IsBelow(op->a - op->b, 1);
      case BinaryOp::kLe:
        return value ? IsBelow(op->a - op->b, 1) : IsBelow(op->b - op->a, 0);
      case BinaryOp::kLt:
        return value ? IsBelow(op->a - op->b, 0) : IsBelow(op->b - op->a, 1);
      default:
        return false;
    }
  }
  // Returns whether a difference that falls with the number of the iteration is below a bound in
  // all iterations. The extent gives the least number.
  bool IsBelow(const Expr& difference, int64_t bound) {
    auto slope = analyzer_.StrideOf(difference, loop_->var);
    if (!slope || *slope >= 0 || -*slope % extent_.step != 0) return false;
    Expr first = ir::Substitute(difference, {{loop_->var, ir::Const(loop_->var.dtype(), 0)}});
    Expr times = ir::Const(first.dtype(), -*slope / extent_.step);
    Expr most = first - ir::CastTo(first.dtype(), extent_.least) * times;
    return analyzer_.CanProveLess(analyzer_.Simplify(most), ir::Const(first.dtype(), bound));
  }

  // Executes a statement of one such iteration. Sets `known_` to false where its effect is not.
  void Run(const Stmt& s) {
    if (const auto* seq = s.as<ir::SeqNode>()) {
      for (const Stmt& part : seq->stmts) Run(part);
    } else if (const auto* copy = s.as<ir::CopyNode>()) {
      Write(copy->dst, copy->src->buffer.IsGlobal() || !copy->src.IsWhole()
                           ? Other(copy->dst->buffer)
                           : As(copy->dst->buffer, ValueOf(copy->src->buffer)));
    } else if (const auto* fill = s.as<ir::FillNode>()) {
      Write(fill->dst, Evaluate(fill->value));
    } else if (const auto* reduce = s.as<ir::ReduceNode>()) {
      Write(reduce->dst, Reduced(reduce));
    } else if (const auto* gemm = s.as<ir::GemmNode>()) {
      Write(gemm->result(), Multiplied(gemm));
    } else if (const auto* loop = s.as<ir::ParallelForNode>()) {
      arith::Analyzer::Scope scope(&analyzer_);
      for (size_t i = 0; i < loop->vars.size(); ++i) {
        analyzer_.Bind(loop->vars[i], ir::Const(loop->vars[i].dtype(), 0), loop->extents[i]);
      }
      RunParallel(loop);
    } else {
      known_ = known_ && s->kind == ir::StmtKind::kAlloc;
    }
  }
  void RunParallel(const ir::ParallelForNode* loop) {
    Stmt body = ir::WithoutNames(loop->body);
    const auto* store = body.as<ir::StoreNode>();
    bool elements = store != nullptr && IsTile(store->buffer) &&
                    store->indices.size() == store->buffer->shape.size();
    for (size_t d = 0; elements && d < store->indices.size(); ++d) {
      auto var = std::find_if(loop->vars.begin(), loop->vars.end(),
                              [&](const ir::Var& v) { return v.same_as(store->indices[d]); });
      elements =
          var != loop->vars.end() && ir::AsInt(loop->extents[var - loop->vars.begin()]) &&
          ir::AsInt(loop->extents[var - loop->vars.begin()]) == ir::AsInt(store->buffer->shape[d]);
    }
    known_ = known_ && elements && loop->vars.size() == store->indices.size();
    if (!known_) return;
    place_ = store;
    Expr value = Evaluate(store->value);
    place_ = nullptr;
    Write(Region::Whole(store->buffer), value);
  }

  void Write(const Region& region, const Expr& value) {
    const Buffer& tile = region->buffer;
    if (!IsTile(tile) || !region.IsWhole()) {
      known_ = false;
      return;
    }
    if (values_.insert_or_assign(tile.get(), value).second) written_.push_back(tile);
  }

  // The value that all elements of a row have, or that each of them had before the iteration.
  Expr ValueOf(const Buffer& tile) {
    auto it = values_.find(tile.get());
    return it == values_.end() ? Before(tile) : it->second;
  }
  Expr Before(const Buffer& tile) {
    auto [it, is_new] = before_.try_emplace(tile.get());
    if (is_new) it->second = ir::Var(tile->name, tile->dtype);
    return it->second;
  }
  // A finite value of which nothing is known.
  static Expr Other(const Buffer& tile) { return ir::Var("other", tile->dtype); }
  static Expr Other(const Expr& e) { return ir::Var("other", e.dtype()); }
  // Returns a value in the type of a tile.
  static Expr As(const Buffer& tile, const Expr& value) {
    return AsNumber(value) || value.dtype() == tile->dtype ? value : Other(tile);
  }

  Expr Reduced(const ir::ReduceNode* op) {
    const Buffer& result = op->dst->buffer;
    Expr value = op->src.IsWhole() ? ValueOf(op->src->buffer) : Other(result);
    auto number = AsNumber(value);
    bool none = (op->op == "max" && number == -kInfinity) || (op->op == "sum" && number == 0);
    if (!none || op->slack.defined()) return Other(result);
    return op->clear ? value : ValueOf(result);
  }
  Expr Multiplied(const ir::GemmNode* op) {
    const Buffer& result = op->result()->buffer;
    const ir::GemmOperandNode* a = op->Operand(ir::GemmOperandKind::kA);
    bool adds = ir::IsConst(op->clear_accum, 0);
    if (op->operands.size() != 3 || !adds) return Other(result);
    Expr value = ValueOf(result);
    bool nothing = a->region.IsWhole() && AsNumber(ValueOf(a->buffer())) == 0;
    return nothing || AsNumber(value) == -kInfinity ? value : Other(result);
  }

  // Returns the value of an expression for the element that is stored, or for all elements.
  Expr Evaluate(const Expr& e) {
    if (AsNumber(e)) return e;
    if (const auto* load = e.as<ir::LoadNode>()) return Loaded(load);
    if (const auto* select = e.as<ir::SelectNode>()) {
      if (IsTrue(select->condition)) return Evaluate(select->true_value);
      Expr other = Evaluate(select->false_value);
      bool same = IsFalse(select->condition) || IsSame(Evaluate(select->true_value), other);
      return same ? other : Other(e);
    }
    if (const auto* cast = e.as<ir::CastNode>()) {
      Expr value = Evaluate(cast->value);
      return AsNumber(value) || value.dtype() == e.dtype() ? value : Other(e);
    }
    if (const auto* unary = e.as<ir::UnaryNode>()) {
      auto number = AsNumber(Evaluate(unary->a));
      bool negated = unary->Op() == ir::UnaryOp::kNeg && number;
      return negated ? Expr(ir::FloatImm(e.dtype(), -*number)) : Other(e);
    }
    if (const auto* binary = e.as<ir::BinaryNode>()) {
      return Computed(binary->Op(), Evaluate(binary->a), Evaluate(binary->b));
    }
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr || (call->name != "exp2" && call->name != "exp")) return Other(e);
    auto number = AsNumber(Evaluate(call->args[0]));
    return number == -kInfinity || number == 0 ? Number(e, std::exp2(*number)) : Other(e);
  }
  static Expr Number(const Expr& like, double value) { return ir::FloatImm(like.dtype(), value); }

  // An element at the place that is stored to, or the one of its row.
  Expr Loaded(const ir::LoadNode* load) {
    auto self = ir::ffi::GetRef<Expr>(load);
    if (!IsTile(load->buffer) || place_ == nullptr) return Other(self);
    bool own = load->indices.size() <= place_->indices.size();
    for (size_t d = 0; own && d < load->indices.size(); ++d) {
      own = load->indices[d].same_as(place_->indices[d]);
    }
    return own ? ValueOf(load->buffer) : Other(self);
  }

  // Returns whether it is a finite number, or a variable that counts as finite.
  bool IsFinite(const std::optional<double>& number) {
    takes_finite_ = takes_finite_ || !number;
    return !number || std::isfinite(*number);
  }

  Expr Computed(BinaryOp op, const Expr& a, const Expr& b) {
    auto x = AsNumber(a), y = AsNumber(b);
    bool none = x == -kInfinity;
    switch (op) {
      case BinaryOp::kAdd:
        if (x == 0.0) return b;
        return y == 0.0 || (none && IsFinite(y)) ? a : ir::MakeBinary(op, a, b);
      case BinaryOp::kSub:
        if (!none && IsSame(a, b) && IsFinite(x)) return Number(a, 0);
        return y == 0.0 || (none && IsFinite(y)) ? a : ir::MakeBinary(op, a, b);
      case BinaryOp::kMul:
        if (x == 1.0) return b;
        if (y == 1.0 || (none && y && *y > 0) || (x == 0.0 && IsFinite(y))) return a;
        return y == -kInfinity && x && *x > 0 ? b : ir::MakeBinary(op, a, b);
      case BinaryOp::kMax:
        if (none || IsSame(a, b)) return b;
        return y == -kInfinity ? a : ir::MakeBinary(op, a, b);
      default:
        return Other(a);
    }
  }

  // Returns whether each iteration writes the tile before it reads it, and nothing else uses it.
  bool IsForgotten(const Buffer& tile) const {
    auto body = ir::CountEffects(loop_->body, tile);
    bool inside = ir::CountEffects(launch_->body, tile) == body;
    std::optional<bool> reads;
    ir::WalkStmts(loop_->body, [&](const Stmt& s) {
      if (reads || s->kind == ir::StmtKind::kSeq) return !reads;
      for (const ir::Effect& effect : ir::EffectsOf(s)) {
        if (effect.buffer.same_as(tile)) reads = reads.value_or(false) || effect.Reads();
      }
      return false;
    });
    return inside && reads == false;
  }

  const ir::KernelLaunchNode* launch_;
  const ir::ForNode* loop_;
  ir::Var block_;
  GrowingExtent extent_;
  arith::Analyzer analyzer_;
  bool known_ = true;
  bool takes_finite_ = false;             // what an iteration before has computed
  const ir::StoreNode* place_ = nullptr;  // of the parallel loop that is executed
  std::unordered_map<const ir::ffi::Object*, Expr> values_;
  std::unordered_map<const ir::ffi::Object*, Expr> before_;
  std::vector<Buffer> written_;
};

}  // namespace

bool IdlesAfterEnd(const ir::Func& func, const ir::KernelLaunchNode* launch,
                   const ir::ForNode* loop, const ir::Var& block) {
  return IdleFinder(func, launch, loop, block).Find();
}

}  // namespace tilelang::tiling
