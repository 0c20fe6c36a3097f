#include "transform/fuse_elements.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/changed_launch.h"
#include "ir/copy_operator.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "transform/substitute_values.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

// Bytes of a vector of a thread.
constexpr int64_t kWidestVector = 16;

bool IsTile(const Buffer& buffer) { return buffer.IsShared() || buffer.IsFragment(); }

int64_t SizeOf(const Expr& value) {
  int64_t nodes = 0;
  ir::WalkExprs(value, [&](const Expr&) { return ++nodes <= kMostNodes; });
  return nodes;
}

// Replaces elements of tiles by the values that they have.
class TileReader : public ir::ExprMutator {
 public:
  using Reader = std::function<Expr(const ir::LoadNode*)>;
  explicit TileReader(Reader read) : read_(std::move(read)) {}

  using ExprMutator::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    return IsTile(op->buffer) ? read_(op) : ExprMutator::Rewrite(op);
  }

 private:
  Reader read_;
};

// Follows the values of tiles through the statements of a launch, for one element.
class Fuser {
 public:
  // Returns the statements of the launch with one loop; nothing if it does anything else.
  std::optional<std::vector<Stmt>> Fuse(const ir::SeqNode* body, int64_t threads) {
    for (const Stmt& s : body->stmts) {
      if (s->kind == ir::StmtKind::kBind) {
        names_.push_back(s);
      } else if (!Follow(s)) {
        return std::nullopt;
      }
    }
    bool fuses = computes_ && !values_.empty() && !stores_.empty() && HasNoVectors(threads);
    if (!fuses || !AreApart() || !NamesStay()) return std::nullopt;
    std::vector<Stmt> fused = names_;
    fused.push_back(ir::ParallelFor(vars_, extents_, ir::MakeSeq(stores_, body->span), {},
                                    stores_.front().span()));
    return fused;
  }

 private:
  // Returns whether a thread has less than a vector of the tensors with the shortest elements.
  bool HasNoVectors(int64_t threads) const {
    int64_t elements = 1;
    for (int64_t extent : moving_) elements *= extent;
    int64_t narrowest = kWidestVector;
    ir::WalkEffects(ir::MakeSeq(stores_, ir::Span()), [&](const ir::Effect& effect) {
      narrowest = std::min<int64_t>(narrowest, ir::Bytes(effect.buffer->dtype));
    });
    return elements * narrowest < threads * kWidestVector;
  }

  bool Follow(const Stmt& s) {
    if (const auto* alloc = s.as<ir::AllocNode>()) return IsTile(alloc->buffer);
    if (const auto* copy = s.as<ir::CopyNode>()) return copy->IsPlain() && Copy(copy);
    if (const auto* loop = s.as<ir::ParallelForNode>()) {
      return loop->annotations.empty() && SetExtents(loop->extents, loop->span) && Loop(loop);
    }
    const auto* fill = s.as<ir::FillNode>();
    bool number = fill != nullptr && IsTile(fill->dst->buffer) && fill->dst.IsWhole() &&
                  (fill->value->kind == ir::ExprKind::kIntImm ||
                   fill->value->kind == ir::ExprKind::kFloatImm);
    return number && SetExtents(fill->dst->extents, fill->span) &&
           Write(fill->dst->buffer, {}, fill->value, fill->span);
  }

  // Sets the extents of the loop if they are not known. Returns false if they are others, apart
  // from extents of one.
  bool SetExtents(const ir::Array<Expr>& extents, const ir::Span& span) {
    auto known = ir::AsInts(extents);
    if (!known) return false;
    std::vector<int64_t> moving;
    for (int64_t extent : *known) {
      if (extent != 1) moving.push_back(extent);
    }
    if (vars_.empty()) {
      for (int64_t extent : moving) {
        vars_.push_back(ir::Var("i" + std::to_string(vars_.size()), ir::dtypes::kInt32, span));
        extents_.push_back(ir::Const(ir::dtypes::kInt32, extent));
      }
      moving_ = moving;
      return !moving.empty();
    }
    return moving == moving_;
  }

  // Returns the element of a region for the variables of the loop.
  ir::Array<Expr> ElementOf(const ir::Region& region) const {
    ir::Array<Expr> indices;
    size_t next = 0;
    for (size_t d = 0; d < region->mins.size(); ++d) {
      const Expr& min = region->mins[d];
      bool one = ir::IsConst(region->extents[d], 1);
      indices.push_back(one ? min : min + ir::CastTo(min.dtype(), vars_[next++]));
    }
    return indices;
  }

  bool Copy(const ir::CopyNode* op) {
    const Buffer &from = op->src->buffer, &to = op->dst->buffer;
    bool known = (from.IsGlobal() || (IsTile(from) && op->src.IsWhole())) &&
                 (to.IsGlobal() || (IsTile(to) && op->dst.IsWhole()));
    if (!known || !SetExtents(op->src->extents, op->span) ||
        !SetExtents(op->dst->extents, op->span)) {
      return false;
    }
    Expr value;
    if (from.IsGlobal()) {
      value = ir::Load(from, ElementOf(op->src), op->span);
    } else if (auto it = values_.find(from.get()); it != values_.end()) {
      value = it->second;
    }
    if (!value.defined()) return false;
    ir::Array<Expr> indices = to.IsGlobal() ? ElementOf(op->dst) : ir::Array<Expr>();
    return Write(to, indices, ir::CastTo(to->dtype, value), op->span);
  }

  bool Loop(const ir::ParallelForNode* loop) {
    computes_ = true;
    ir::Map<ir::Var, Expr> element;
    size_t next = 0;
    for (size_t i = 0; i < loop->vars.size(); ++i) {
      bool one = ir::IsConst(loop->extents[i], 1);
      const ir::Var& var = loop->vars[i];
      element.Set(var, one ? ir::Const(var.dtype(), 0) : ir::CastTo(var.dtype(), vars_[next++]));
    }
    const auto* seq = loop->body.as<ir::SeqNode>();
    ir::Array<Stmt> stmts = seq != nullptr ? seq->stmts : ir::Array<Stmt>{loop->body};
    return std::all_of(stmts.begin(), stmts.end(), [&](const Stmt& s) {
      if (const auto* bind = s.as<ir::BindNode>()) {
        Expr value = Read(ir::Substitute(bind->value, element));
        if (value.defined()) element.Set(bind->var, value);
        return value.defined();
      }
      const auto* store = s.as<ir::StoreNode>();
      if (store == nullptr) return false;
      Expr value = Read(ir::Substitute(store->value, element));
      ir::Array<Expr> indices;
      for (const Expr& index : store->indices) {
        indices.push_back(Read(ir::Substitute(index, element)));
        if (!indices.back().defined()) return false;
      }
      bool own = !IsTile(store->buffer) || IsElement(store->buffer, indices);
      return value.defined() && own && Write(store->buffer, indices, value, store->span);
    });
  }

  // Returns whether the indices are those of the loop's element of a tile.
  bool IsElement(const Buffer& tile, const ir::Array<Expr>& indices) const {
    size_t next = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      bool same = ir::IsConst(tile->shape[d], 1)
                      ? ir::IsConst(indices[d], 0)
                      : next < vars_.size() && indices[d].same_as(vars_[next++]);
      if (!same) return false;
    }
    return next == vars_.size();
  }

  // Returns the expression with values instead of tiles; null if one has no value, or if it reads
  // other elements.
  Expr Read(const Expr& e) const {
    bool known = true;
    Expr value = TileReader([&](const ir::LoadNode* op) {
                   auto it = values_.find(op->buffer.get());
                   known = known && it != values_.end() && IsElement(op->buffer, op->indices);
                   return known ? it->second : ffi::GetRef<Expr>(op);
                 }).Mutate(e);
    return known && arith::IsPure(value) && SizeOf(value) <= kMostNodes ? value : Expr();
  }

  bool Write(const Buffer& buffer, const ir::Array<Expr>& indices, const Expr& value,
             const ir::Span& span) {
    if (SizeOf(value) > kMostNodes) return false;
    if (buffer.IsGlobal()) {
      stores_.push_back(ir::Store(buffer, indices, value, span));
      return true;
    }
    if (IsTile(buffer)) values_[buffer.get()] = ir::CastTo(buffer->dtype, value);
    return IsTile(buffer);
  }

  // Returns whether the stores of all elements may run in any order, and each access of a tensor
  // goes along its rows with the last variable.
  bool AreApart() const {
    std::vector<ir::Effect> effects = ir::EffectsOf(ir::MakeSeq(stores_, ir::Span()));
    arith::Analyzer analyzer;
    for (const ir::Effect& e : effects) {
      if (!e.buffer.IsGlobal()) return false;
      for (size_t d = 0; d < e.indices.size(); ++d) {
        auto stride = analyzer.StrideOf(e.indices[d], vars_.back());
        bool row = stride && (*stride == 0 || (*stride == 1 && d + 1 == e.indices.size()));
        if (!row) return false;
      }
      for (const ir::Effect& other : effects) {
        bool meet = &e != &other && e.Writes() && ir::MayOverlap(e.buffer, other.buffer);
        bool same = stores_.size() == 1 && e.buffer.same_as(other.buffer) &&
                    std::equal(e.indices.begin(), e.indices.end(), other.indices.begin(),
                               other.indices.end(), arith::SameStructure);
        if (meet && !same) return false;
      }
    }
    return true;
  }

  // Returns whether the names have the same values before all statements: of no tile, and of no
  // tensor that is written.
  bool NamesStay() const {
    std::vector<ir::Effect> stores = ir::EffectsOf(ir::MakeSeq(stores_, ir::Span()));
    std::vector<ir::Effect> reads = ir::EffectsOf(ir::MakeSeq(names_, ir::Span()));
    return std::all_of(reads.begin(), reads.end(), [&](const ir::Effect& read) {
      return read.buffer.IsGlobal() &&
             std::none_of(stores.begin(), stores.end(), [&](const ir::Effect& e) {
               return e.Writes() && ir::MayOverlap(e.buffer, read.buffer);
             });
    });
  }

  ir::Array<ir::Var> vars_;
  ir::Array<Expr> extents_;
  std::vector<int64_t> moving_;
  std::vector<Stmt> names_;
  std::unordered_map<const ir::ffi::Object*, Expr> values_;  // of tiles
  std::vector<Stmt> stores_;
  bool computes_ = false;  // a program that only copies keeps its tiles
};

class ElementFuser : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ffi::GetRef<Stmt>(op);
    const auto* body = op->body.as<ir::SeqNode>();
    bool named = ir::HasExpr(op->body, [&](const Expr& e) {
      return std::any_of(op->thread_vars.begin(), op->thread_vars.end(),
                         [&](const ir::Var& thread) { return e.same_as(thread); });
    });
    if (body == nullptr || named || !op->attrs.empty()) return self;
    auto fused = Fuser().Fuse(body, analysis::ThreadsOf(op).count);
    return fused ? Stmt(ir::WithBody(op, ir::MakeSeq(*fused, body->span))) : self;
  }
};

}  // namespace

ir::Func FuseElements(const ir::Func& func) {
  return func.WithBody(ElementFuser().MutateStmt(func->body));
}

}  // namespace tilelang::transform
