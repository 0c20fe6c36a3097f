#include "analysis/running_softmax.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>

#include "ir/effects.h"
#include "ir/same.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::BinaryOp;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

// A parallel loop that stores one value to each element of a fragment, whose first index is the
// first variable.
struct ElementStore {
  const ir::ParallelForNode* loop = nullptr;
  Buffer tile;
  Expr value;

  ir::Var row() const { return loop->vars[0]; }
  // Returns whether `e` is the element of `rows` of the same row.
  bool IsRowOf(const Buffer& rows, const Expr& e) const {
    const auto* load = e.as<ir::LoadNode>();
    return load != nullptr && load->buffer.same_as(rows) && load->indices.size() == 1 &&
           load->indices[0].same_as(row());
  }
  // Returns whether `e` is the element of `other` at the indices of the store.
  bool IsSameElement(const Buffer& other, const Expr& e) const {
    const auto* load = e.as<ir::LoadNode>();
    return load != nullptr && load->buffer.same_as(other) &&
           std::equal(load->indices.begin(), load->indices.end(), loop->vars.begin(),
                      loop->vars.end(), [](const Expr& a, const Expr& b) { return a.same_as(b); });
  }
};

std::optional<ElementStore> AsElementStore(const Stmt& s) {
  const auto* loop = s.as<ir::ParallelForNode>();
  const auto* store = loop != nullptr ? loop->body.as<ir::StoreNode>() : nullptr;
  if (store == nullptr || !store->buffer.IsFragment()) return std::nullopt;
  if (loop->vars.size() != store->indices.size()) return std::nullopt;
  for (size_t d = 0; d < loop->vars.size(); ++d) {
    auto extent = ir::AsInt(loop->extents[d]);
    bool all = extent && extent == ir::AsInt(store->buffer->shape[d]);
    if (!all || !store->indices[d].same_as(loop->vars[d])) return std::nullopt;
  }
  return ElementStore{loop, store->buffer, store->value};
}

const ir::CallNode* AsExponential(const Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  bool fits = call != nullptr && call->dtype == ir::dtypes::kFloat32 &&
              (call->name == "exp" || call->name == "exp2");
  return fits ? call : nullptr;
}

bool IsProduct(const Expr& e, const std::function<bool(const Expr&)>& one,
               const std::function<bool(const Expr&)>& other) {
  const auto* op = e.as<ir::BinaryNode>();
  return op != nullptr && op->Op() == BinaryOp::kMul &&
         ((one(op->a) && other(op->b)) || (other(op->a) && one(op->b)));
}

// Returns the factor of the row's element, or of the element of a tile at the indices of the store,
// in an expression that is linear in it: 0 if the expression does not contain it, nothing if it is
// not linear.
std::optional<double> FactorOf(const ElementStore& store, const Buffer& rows, const Expr& e) {
  if (store.IsRowOf(rows, e) || store.IsSameElement(rows, e)) return 1;
  bool has = ir::HasExpr(e, [&](const Expr& part) {
    const auto* load = part.as<ir::LoadNode>();
    return load != nullptr && load->buffer.same_as(rows);
  });
  if (!has) return 0;
  if (const auto* unary = e.as<ir::UnaryNode>()) {
    auto factor = FactorOf(store, rows, unary->a);
    bool negates = static_cast<ir::UnaryOp>(unary->op) == ir::UnaryOp::kNeg;
    return factor && negates ? std::optional<double>(-*factor) : std::nullopt;
  }
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr) return std::nullopt;
  auto a = FactorOf(store, rows, op->a), b = FactorOf(store, rows, op->b);
  if (!a || !b) return std::nullopt;
  if (op->Op() == BinaryOp::kAdd) return *a + *b;
  if (op->Op() == BinaryOp::kSub) return *a - *b;
  const auto* left = op->a.as<ir::FloatImmNode>();
  const auto* right = op->b.as<ir::FloatImmNode>();
  if (op->Op() == BinaryOp::kMul && left != nullptr) return left->value * *b;
  if (op->Op() == BinaryOp::kMul && right != nullptr) return *a * right->value;
  return std::nullopt;
}

// Returns whether an expression has no other term than elements of two buffers times constants.
bool HasOnly(const Expr& e, const Buffer& one, const Buffer& other) {
  if (const auto* load = e.as<ir::LoadNode>()) {
    return load->buffer.same_as(one) || load->buffer.same_as(other);
  }
  if (const auto* unary = e.as<ir::UnaryNode>()) return HasOnly(unary->a, one, other);
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr) return false;
  if (op->Op() == BinaryOp::kMul) return HasOnly(op->a, one, other) || HasOnly(op->b, one, other);
  return HasOnly(op->a, one, other) && HasOnly(op->b, one, other);
}

// The statements of a sequence, and of the sequences in it.
void Flatten(const Stmt& s, std::vector<Stmt>* stmts) {
  const auto* seq = s.as<ir::SeqNode>();
  if (seq == nullptr) return stmts->push_back(s);
  for (const Stmt& inner : seq->stmts) Flatten(inner, stmts);
}

// Proves that a loop is a running softmax, from the statement on that computes the factor.
class Prover {
 public:
  Prover(const ir::KernelLaunchNode* launch, const ir::ForNode* loop)
      : launch_(launch), loop_(loop) {
    Flatten(loop->body, &stmts_);
  }

  std::optional<RunningSoftmax> Find() {
    for (size_t at = 0; at < stmts_.size(); ++at) {
      if (ReadFactor(stmts_[at]) && Holds(at)) return found_;
    }
    return std::nullopt;
  }

 private:
  // Reads factor[i] = e(before[i] - highest[i]).
  bool ReadFactor(const Stmt& s) {
    auto store = AsElementStore(s);
    if (!store || store->loop->vars.size() != 1) return false;
    const ir::CallNode* power = AsExponential(store->value);
    if (power == nullptr) return false;
    const Expr& argument = power->args[0];
    std::vector<Buffer> rows;
    ir::WalkExprs(argument, [&](const Expr& e) {
      if (const auto* load = e.as<ir::LoadNode>()) ir::AddOnce(load->buffer, &rows);
      return true;
    });
    if (rows.size() != 2 || !HasOnly(argument, rows[0], rows[1])) return false;
    auto first = FactorOf(*store, rows[0], argument), second = FactorOf(*store, rows[1], argument);
    if (!first || !second || *first != -*second || *first == 0) return false;
    found_ = RunningSoftmax{};
    found_.before = *first > 0 ? rows[0] : rows[1];
    found_.highest = *first > 0 ? rows[1] : rows[0];
    found_.factor = store->tile;
    found_.scale = std::abs(*first);
    found_.exponential = power->name;
    found_.rescaling = store->loop;
    auto fits = [](const Buffer& b) {
      return b.IsFragment() && b->dtype == ir::dtypes::kFloat32 && b->shape.size() == 1;
    };
    return fits(found_.before) && fits(found_.highest) && fits(found_.factor);
  }

  bool Holds(size_t at) {
    weights_.clear();
    parts_.clear();
    others_.clear();
    maxima_.clear();
    bounds_.clear();
    at_ = at;
    if (!Raises()) return false;
    for (size_t i = at + 1; i < stmts_.size(); ++i) {
      if (!Follows(i)) others_.push_back(i);
    }
    if (!found_.carried.defined() || found_.sums.empty() || weights_.empty()) return false;
    return AreApart() && EndWithLoop();
  }

  // Returns whether the statements before the factor take the old maximum, and raise it.
  bool Raises() {
    bool taken = false;   // before = highest
    bool raised = false;  // highest is at least before
    bool written = false;
    for (size_t i = 0; i < at_; ++i) {
      const Stmt& s = stmts_[i];
      if (IsCopy(s, found_.highest, found_.before)) {
        if (taken || ir::Writes(AllBefore(i), found_.highest)) return false;
        found_.carried = found_.highest;
        taken = raised = true;
      } else if (!ir::Writes(s, found_.highest)) {
        NoteMaximum(i);
        others_.push_back(i);
      } else if (!Raise(i, &raised)) {
        return false;
      } else {
        written = true;
      }
    }
    found_.rises = raised;
    found_.bounds = true;
    return written;
  }
  Stmt AllBefore(size_t end) const {
    return ir::Seq(ir::Array<Stmt>(stmts_.begin(), stmts_.begin() + static_cast<ptrdiff_t>(end)));
  }

  // Returns whether a statement writes `highest` in a known way. `raised`: whether it is then at
  // least `before`.
  bool Raise(size_t i, bool* raised) {
    const Stmt& s = stmts_[i];
    if (s->kind == ir::StmtKind::kFill) {
      *raised = false;
      bounds_.clear();
      return true;
    }
    if (const auto* reduce = s.as<ir::ReduceNode>()) {
      *raised = *raised && !reduce->clear;
      if (reduce->clear) bounds_.clear();
      if (IsOfRows(reduce)) bounds_.push_back({reduce->src->buffer, 1, i});
      return reduce->op == "max" && !reduce->nan_propagate && !Tracks(reduce->src->buffer);
    }
    auto store = AsElementStore(s);
    if (store && IsGuard(*store)) return found_.guards = true;
    const auto* op = store ? store->value.as<ir::BinaryNode>() : nullptr;
    if (op == nullptr || op->Op() != BinaryOp::kMax) return false;
    auto is_before = [&](const Expr& e) { return store->IsRowOf(found_.before, e); };
    auto is_highest = [&](const Expr& e) { return store->IsRowOf(found_.highest, e); };
    auto fits = [&](const Expr& e) {
      return is_before(e) || is_highest(e) || !Uses(e, found_.before, found_.highest);
    };
    bool keeps = is_highest(op->a) || is_highest(op->b);
    if (!keeps) bounds_.clear();
    for (const Bound& maximum : maxima_) {
      for (const Expr& e : {op->a, op->b}) {
        auto factor = FactorOf(*store, maximum.tile, e);
        bool bounds = factor && *factor > 0 && HasOnly(e, maximum.tile, maximum.tile) &&
                      !ir::Writes(Between(maximum.at, i), maximum.tile);
        const auto* reduce = stmts_[maximum.at].as<ir::ReduceNode>();
        if (bounds) bounds_.push_back({reduce->src->buffer, *factor, maximum.at});
      }
    }
    *raised = is_before(op->a) || is_before(op->b) || (keeps && *raised);
    return fits(op->a) && fits(op->b) && !Uses(store->value, found_.factor, found_.factor);
  }

  // Returns whether a store puts a finite number in place of minus infinity in `highest`, and keeps
  // all other maxima.
  bool IsGuard(const ElementStore& store) const {
    const auto* choice = store.value.as<ir::SelectNode>();
    const auto* test = choice != nullptr ? choice->condition.as<ir::BinaryNode>() : nullptr;
    bool equal = test != nullptr && test->Op() == BinaryOp::kEq;
    if (!equal && (test == nullptr || test->Op() != BinaryOp::kNe)) return false;
    const auto* infinity = test->b.as<ir::FloatImmNode>();
    const auto* number = (equal ? choice->true_value : choice->false_value).as<ir::FloatImmNode>();
    return store.IsRowOf(found_.highest, test->a) && infinity != nullptr &&
           infinity->value == -HUGE_VAL && number != nullptr && std::isfinite(number->value) &&
           store.IsRowOf(found_.highest, equal ? choice->false_value : choice->true_value);
  }

  // Notes the maxima of rows of a tile.
  void NoteMaximum(size_t i) {
    const auto* reduce = stmts_[i].as<ir::ReduceNode>();
    if (reduce != nullptr && IsOfRows(reduce)) maxima_.push_back({reduce->dst->buffer, 1, i});
  }
  static bool IsOfRows(const ir::ReduceNode* op) {
    return op->op == "max" && op->dim == 1 && op->src.IsWhole() && op->dst.IsWhole();
  }
  Stmt Between(size_t begin, size_t end) const {
    auto at = [&](size_t i) { return stmts_.begin() + static_cast<ptrdiff_t>(i); };
    return ir::Seq(ir::Array<Stmt>(at(begin + 1), at(end)));
  }

  static bool Uses(const Expr& e, const Buffer& one, const Buffer& other) {
    return ir::HasExpr(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      return load != nullptr && (load->buffer.same_as(one) || load->buffer.same_as(other));
    });
  }
  bool Tracks(const Buffer& b) const {
    return b.same_as(found_.highest) || b.same_as(found_.before) || b.same_as(found_.factor) ||
           ir::HasSame(found_.sums, b) || ir::HasSame(parts_, b) || ir::HasSame(weights_, b);
  }

  // Returns whether a statement copies all of a tile to another one of its shape.
  static bool IsCopy(const Stmt& s, const Buffer& from, const Buffer& to) {
    if (const auto* copy = s.as<ir::CopyNode>()) {
      return copy->IsPlain() && copy->src->buffer.same_as(from) && copy->dst->buffer.same_as(to) &&
             copy->src.IsWhole() && copy->dst.IsWhole();
    }
    auto store = AsElementStore(s);
    if (!store || !store->tile.same_as(to)) return false;
    const auto* cast = store->value.as<ir::CastNode>();
    return store->IsSameElement(from, cast != nullptr ? cast->value : store->value);
  }

  // Returns whether a statement behind the factor is one of a softmax, and notes what it computes.
  bool Follows(size_t i) {
    const Stmt& s = stmts_[i];
    if (IsCopy(s, found_.highest, found_.before)) {
      bool first = !found_.carried.defined() && !found_.factor.same_as(found_.before);
      found_.carried = found_.before;
      return first;
    }
    if (const auto* reduce = s.as<ir::ReduceNode>()) return Sums(reduce);
    if (const auto* gemm = s.as<ir::GemmNode>()) return Multiplies(gemm);
    if (CopiesWeights(s)) return true;
    auto store = AsElementStore(s);
    if (!store) return false;
    if (IsWeight(*store, store->value, i)) return AddWeights(store->tile);
    return Rescales(*store);
  }

  bool CopiesWeights(const Stmt& s) {
    for (const Buffer& from : weights_) {
      Buffer to;
      if (const auto* copy = s.as<ir::CopyNode>()) to = copy->dst->buffer;
      if (auto store = AsElementStore(s)) to = store->tile;
      if (to.defined() && IsCopy(s, from, to)) return AddWeights(to);
    }
    return false;
  }
  bool AddWeights(const Buffer& tile) {
    if (Tracks(tile) || tile.IsGlobal()) return false;
    const ir::DType& type = tile->dtype;
    weights_.push_back(tile);
    return type == ir::dtypes::kFloat32 || (ir::IsFloat(type) && type.bits == 16);
  }

  // Returns whether a value that statement `at` stores is e(score - highest[i]), or zero for some
  // elements. Notes whether such scores are at most `highest`.
  bool IsWeight(const ElementStore& store, const Expr& value, size_t at) {
    if (const auto* cast = value.as<ir::CastNode>()) return IsWeight(store, cast->value, at);
    if (const auto* choice = value.as<ir::SelectNode>()) {
      auto fits = [&](const Expr& e) {
        const auto* number = e.as<ir::FloatImmNode>();
        return IsWeight(store, e, at) || (number != nullptr && number->value == 0);
      };
      return !UsesTracked(choice->condition) && fits(choice->true_value) &&
             fits(choice->false_value);
    }
    const ir::CallNode* power = AsExponential(value);
    if (power == nullptr || power->name != found_.exponential) return false;
    auto factor = FactorOf(store, found_.highest, power->args[0]);
    if (!factor || *factor != -found_.scale) return false;
    bool bounded = std::any_of(bounds_.begin(), bounds_.end(), [&](const Bound& bound) {
      auto of_score = FactorOf(store, bound.tile, power->args[0]);
      return of_score && *of_score == found_.scale * bound.factor &&
             HasOnly(power->args[0], bound.tile, found_.highest) &&
             !ir::Writes(Between(bound.at, at), bound.tile);
    });
    found_.bounds &= bounded;
    return bounded || !ir::HasExpr(power->args[0], [&](const Expr& part) {
             const auto* load = part.as<ir::LoadNode>();
             return load != nullptr && !load->buffer.same_as(found_.highest) &&
                    Tracks(load->buffer);
           });
  }
  bool UsesTracked(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      return load != nullptr && Tracks(load->buffer);
    });
  }

  // Sums of weights are new in each iteration, or join sums that are rescaled.
  bool Sums(const ir::ReduceNode* op) {
    const Buffer& result = op->dst->buffer;
    bool fits = op->op == "sum" && op->dim == 1 && ir::HasSame(weights_, op->src->buffer) &&
                op->src.IsWhole() && op->dst.IsWhole() && result->shape.size() == 1 &&
                result->dtype == ir::dtypes::kFloat32;
    if (!fits) return false;
    if (!op->clear) return ir::HasSame(found_.sums, result);
    if (Tracks(result)) return false;
    parts_.push_back(result);
    return true;
  }

  // The rows of weights are those of the result, which is rescaled.
  bool Multiplies(const ir::GemmNode* op) const {
    const ir::GemmOperandNode* a = op->Operand(ir::GemmOperandKind::kA);
    const ir::GemmOperandNode* b = op->Operand(ir::GemmOperandKind::kB);
    return a != nullptr && b != nullptr && ir::HasSame(weights_, a->buffer()) && !a->transposed &&
           a->region.IsWhole() && !Tracks(b->buffer()) && op->operands.size() == 3 &&
           !op->mbar.defined() && ir::IsConst(op->clear_accum, 0) && op->result().IsWhole() &&
           op->result()->buffer->dtype == ir::dtypes::kFloat32 &&
           ir::HasSame(found_.sums, op->result()->buffer);
  }

  // Reads sum[i, ..] = sum[i, ..] * factor[i], plus a sum of weights.
  bool Rescales(const ElementStore& store) {
    if (Tracks(store.tile) || store.tile->dtype != ir::dtypes::kFloat32) return false;
    auto is_sum = [&](const Expr& e) { return store.IsSameElement(store.tile, e); };
    auto is_factor = [&](const Expr& e) { return store.IsRowOf(found_.factor, e); };
    auto is_rescaled = [&](const Expr& e) { return IsProduct(e, is_sum, is_factor); };
    auto is_part = [&](const Expr& e) {
      return std::any_of(parts_.begin(), parts_.end(),
                         [&](const Buffer& part) { return store.IsRowOf(part, e); });
    };
    const auto* op = store.value.as<ir::BinaryNode>();
    bool adds = op != nullptr && op->Op() == BinaryOp::kAdd && store.loop->vars.size() == 1 &&
                ((is_rescaled(op->a) && is_part(op->b)) || (is_part(op->a) && is_rescaled(op->b)));
    if (!adds && !is_rescaled(store.value)) return false;
    found_.sums.push_back(store.tile);
    return true;
  }

  // Returns whether other statements of the loop leave the buffers of the softmax alone. Weights
  // may have been scores before.
  bool AreApart() const {
    for (size_t i : others_) {
      bool apart = true;
      ir::WalkEffects(stmts_[i], [&](const ir::Effect& effect) {
        bool scores = i < at_ && (ir::HasSame(weights_, effect.buffer));
        bool defines = effect.By<ir::AllocNode>() != nullptr;
        apart &= scores || defines || !Tracks(effect.buffer);
      });
      if (!apart) return false;
    }
    auto fresh = [&](const Buffer& b) { return ir::OverwritesFirst(Body(), b); };
    return fresh(found_.factor) && std::all_of(weights_.begin(), weights_.end(), fresh) &&
           std::all_of(parts_.begin(), parts_.end(), fresh);
  }
  Stmt Body() const {
    std::vector<Stmt> uses;
    for (const Stmt& s : stmts_) {
      if (s->kind != ir::StmtKind::kAlloc) uses.push_back(s);
    }
    return ir::Seq(ir::Array<Stmt>(uses.begin(), uses.end()));
  }

  // Returns whether nothing outside of the loop reads what changes with the maximum, but for what
  // is restored.
  bool EndWithLoop() {
    int outside = 0;
    auto count = [&](const Stmt& s, int by) {
      ir::WalkEffects(s, [&](const ir::Effect& effect) {
        bool restored =
            effect.buffer.same_as(found_.carried) || ir::HasSame(found_.sums, effect.buffer);
        if (effect.Reads() && Tracks(effect.buffer) && !restored) outside += by;
      });
    };
    count(launch_->body, 1);
    count(loop_->body, -1);
    found_.ends_in_quotients = EndsInQuotients();
    return outside == 0;
  }

  // Returns whether statements behind the loop divide each result by a sum of its rows before they
  // read it, and read neither sums of rows nor the maximum otherwise.
  bool EndsInQuotients() const {
    std::vector<Stmt> all;
    Flatten(launch_->body, &all);
    auto at = std::find_if(all.begin(), all.end(), [&](const Stmt& s) { return s.get() == loop_; });
    if (at == all.end()) return false;
    std::vector<Buffer> relative = found_.sums;
    relative.push_back(found_.carried);
    for (++at; at != all.end(); ++at) {
      auto store = AsElementStore(*at);
      const auto* quotient = store ? store->value.as<ir::BinaryNode>() : nullptr;
      bool divides = quotient != nullptr && quotient->Op() == BinaryOp::kDiv &&
                     ir::HasSame(found_.sums, store->tile) && store->loop->vars.size() == 2 &&
                     store->IsSameElement(store->tile, quotient->a) &&
                     std::any_of(found_.sums.begin(), found_.sums.end(), [&](const Buffer& sum) {
                       return store->IsRowOf(sum, quotient->b);
                     });
      if (divides) {
        std::erase_if(relative, [&](const Buffer& b) { return b.same_as(store->tile); });
        continue;
      }
      for (const Buffer& b : relative) {
        if (ir::CountEffects(*at, b) != 0) return false;
      }
    }
    return true;
  }

  const ir::KernelLaunchNode* launch_;
  const ir::ForNode* loop_;
  std::vector<Stmt> stmts_;
  size_t at_ = 0;
  RunningSoftmax found_;
  std::vector<Buffer> weights_;
  std::vector<Buffer> parts_;  // sums of the weights of an iteration
  std::vector<size_t> others_;

  // A tile at a statement: whose rows have maxima there, or whose elements times the factor are at
  // most `highest`.
  struct Bound {
    Buffer tile;
    double factor;
    size_t at;
  };
  std::vector<Bound> maxima_;  // results of reductions
  std::vector<Bound> bounds_;  // scores
};

}  // namespace

std::optional<RunningSoftmax> FindRunningSoftmax(const ir::KernelLaunchNode* launch,
                                                 const ir::ForNode* loop) {
  if (ir::MayLeaveLoop(loop->body)) return std::nullopt;
  return Prover(launch, loop).Find();
}

}  // namespace tilelang::analysis
