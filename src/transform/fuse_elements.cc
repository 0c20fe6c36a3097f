#include "transform/fuse_elements.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "arith/lazy_loads.h"
#include "arith/structural.h"
#include "ir/aliases.h"
#include "ir/changed_launch.h"
#include "ir/copy_operator.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "transform/stage_columns.h"
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

// Follows the values of tiles through the statements of a launch, for one element: the value of a
// tile is an expression of the indices of its element, for which vars_ stand.
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
    if (!computes_ || values_.empty() || stores_.empty() || !Gains(threads)) return std::nullopt;
    ir::Array<Expr> extents;
    for (int64_t extent : stored_) extents.push_back(ir::Const(ir::dtypes::kInt32, extent));
    ir::Array<ir::Var> vars(vars_.begin(), vars_.begin() + extents.size());
    ir::ParallelFor loop(vars, extents, ir::MakeSeq(stores_, body->span), {},
                         stores_.front().span());
    if (!AreApart(loop.operator->()) || !NamesStay()) return std::nullopt;
    std::vector<Stmt> fused = names_;
    fused.push_back(loop);
    return fused;
  }

 private:
  using Extents = std::vector<int64_t>;

  // Returns whether a loop over tensors has longer accesses than the tiles: vectors can access all
  // tensors, a thread has less than a vector of a tile, or a loop reads columns of one. Tiles of
  // other rows keep what passes for such rows make of them.
  bool Gains(int64_t threads) const {
    int64_t narrowest = kWidestVector;
    bool vectors = true;
    ir::WalkEffects(ir::MakeSeq(stores_, ir::Span()), [&](const ir::Effect& effect) {
      int64_t element = ir::Bytes(effect.buffer->dtype);
      auto columns = ir::AsInt(effect.buffer->shape.back());
      narrowest = std::min(narrowest, element);
      vectors = vectors && columns && *columns * element % kWidestVector == 0;
    });
    int64_t elements = 1;
    for (int64_t extent : stored_) elements *= extent;
    return vectors || reads_columns_ || elements * narrowest < threads * kWidestVector;
  }

  bool Follow(const Stmt& s) {
    if (const auto* alloc = s.as<ir::AllocNode>()) return IsTile(alloc->buffer);
    if (const auto* copy = s.as<ir::CopyNode>()) return copy->IsPlain() && Copy(copy);
    if (const auto* loop = s.as<ir::ParallelForNode>()) {
      return loop->annotations.empty() && Loop(loop);
    }
    const auto* fill = s.as<ir::FillNode>();
    bool number = fill != nullptr && IsTile(fill->dst->buffer) && fill->dst.IsWhole() &&
                  (fill->value->kind == ir::ExprKind::kIntImm ||
                   fill->value->kind == ir::ExprKind::kFloatImm);
    return number && WriteTile(fill->dst->buffer, fill->value);
  }

  // Returns the extents that are not one.
  static std::optional<Extents> Moving(const ir::Array<Expr>& extents) {
    auto known = ir::AsInts(extents);
    if (!known) return std::nullopt;
    std::erase(*known, 1);
    return Extents(known->begin(), known->end());
  }

  Expr VarOf(size_t dimension, ir::DType type) {
    while (vars_.size() <= dimension) {
      vars_.push_back(ir::Var("i" + std::to_string(vars_.size()), ir::dtypes::kInt32, ir::Span()));
    }
    return ir::CastTo(type, vars_[dimension]);
  }

  // Returns the element of a region.
  ir::Array<Expr> ElementOf(const ir::Region& region) {
    ir::Array<Expr> indices;
    size_t next = 0;
    for (size_t d = 0; d < region->mins.size(); ++d) {
      const Expr& min = region->mins[d];
      bool one = ir::IsConst(region->extents[d], 1);
      indices.push_back(one ? min : min + VarOf(next++, min.dtype()));
    }
    return indices;
  }

  bool Copy(const ir::CopyNode* op) {
    const Buffer &from = op->src->buffer, &to = op->dst->buffer;
    auto extents = Moving(op->src->extents);
    bool known = (from.IsGlobal() || (IsTile(from) && op->src.IsWhole())) &&
                 (to.IsGlobal() || (IsTile(to) && op->dst.IsWhole()));
    if (!known || !extents || extents->empty() || extents != Moving(op->dst->extents)) return false;
    Expr value;
    if (from.IsGlobal()) {
      value = ir::Load(from, ElementOf(op->src), op->span);
    } else if (auto it = values_.find(from.get()); it != values_.end()) {
      value = it->second;
    }
    if (!value.defined()) return false;
    if (IsTile(to)) return WriteTile(to, value);
    return Store(to, ElementOf(op->dst), ir::CastTo(to->dtype, value), *extents, op->span);
  }

  bool Loop(const ir::ParallelForNode* loop) {
    computes_ = true;
    auto extents = Moving(loop->extents);
    if (!extents || extents->empty()) return false;
    ir::Map<ir::Var, Expr> element;
    size_t next = 0;
    for (size_t i = 0; i < loop->vars.size(); ++i) {
      const ir::Var& var = loop->vars[i];
      bool one = ir::IsConst(loop->extents[i], 1);
      element.Set(var, one ? ir::Const(var.dtype(), 0) : VarOf(next++, var.dtype()));
    }
    rank_ = extents->size();
    written_.clear();
    const auto* seq = loop->body.as<ir::SeqNode>();
    ir::Array<Stmt> stmts = seq != nullptr ? seq->stmts : ir::Array<Stmt>{loop->body};
    bool followed = std::all_of(stmts.begin(), stmts.end(), [&](const Stmt& s) {
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
      if (!value.defined()) return false;
      if (!IsTile(store->buffer)) {
        return Store(store->buffer, indices, value, *extents, store->span);
      }
      return WriteElement(store->buffer, indices, value, *extents);
    });
    written_.clear();
    return followed;
  }

  // Writes the element of a tile that each variable of a loop moves along one dimension.
  bool WriteElement(const Buffer& tile, const ir::Array<Expr>& indices, const Expr& value,
                    const Extents& extents) {
    ir::Map<ir::Var, Expr> place;  // of the variables of the loop, as dimensions of the tile
    size_t next = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (ir::IsConst(tile->shape[d], 1)) {
        if (!ir::IsConst(indices[d], 0)) return false;
        continue;
      }
      auto at = std::find_if(vars_.begin(), vars_.end(),
                             [&](const ir::Var& var) { return indices[d].same_as(var); });
      size_t moved = static_cast<size_t>(at - vars_.begin());
      bool whole = moved < extents.size() && ir::IsConst(tile->shape[d], extents[moved]);
      if (!whole || place.count(*at) != 0) return false;
      place.Set(*at, VarOf(next++, ir::dtypes::kInt32));
    }
    if (next != extents.size()) return false;
    auto [it, is_new] = written_.emplace(tile.get(), indices);
    if (!is_new && !AreSame(it->second, indices)) return false;
    return WriteTile(tile, ir::Substitute(value, place));
  }

  static bool AreSame(const ir::Array<Expr>& a, const ir::Array<Expr>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), arith::SameStructure);
  }

  // Returns the expression with values instead of tiles; null if one has no value.
  Expr Read(const Expr& e) {
    bool known = !DividesByRow(e);
    Expr value = TileReader([&](const ir::LoadNode* op) {
                   Expr element = known ? ElementAt(op) : Expr();
                   known = known && element.defined();
                   return known ? element : ffi::GetRef<Expr>(op);
                 }).Mutate(e);
    bool fits = known && arith::IsPure(value) && SizeOf(value) <= kMostNodes && !Chooses(value);
    return fits ? value : Expr();
  }

  // Returns whether a number, or an element of a tile, divides several elements of a row, for which
  // lower/divide_rows.h has one reciprocal.
  bool DividesByRow(const Expr& e) const {
    return ir::HasExpr(e, [&](const Expr& part) {
      const auto* op = part.as<ir::BinaryNode>();
      if (op == nullptr || op->Op() != ir::BinaryOp::kDiv) return false;
      bool has_tile = ir::HasExpr(op->b, [](const Expr& divisor) {
        const auto* load = divisor.as<ir::LoadNode>();
        return load != nullptr && IsTile(load->buffer);
      });
      const auto* number = op->b.as<ir::FloatImmNode>();
      int exponent = 0;
      bool power = number != nullptr && std::abs(std::frexp(number->value, &exponent)) == 0.5;
      return (has_tile && !ir::UsesVar(op->b, vars_[rank_ - 1])) || (number != nullptr && !power);
    });
  }

  // Returns whether elements of memory decide which others are loaded: no vectors could.
  static bool Chooses(const Expr& value) {
    return ir::HasExpr(value, [](const Expr& e) {
      const auto* choice = e.as<ir::SelectNode>();
      return choice != nullptr && ir::HasLoad(choice->condition) && arith::DecidesOnLoads(choice);
    });
  }

  // Returns the value of an element of a tile; null if it is not known.
  Expr ElementAt(const ir::LoadNode* op) {
    auto it = values_.find(op->buffer.get());
    if (it == values_.end()) return Expr();
    std::vector<Expr> at;
    for (size_t d = 0; d < op->indices.size(); ++d) {
      const Expr& index = op->indices[d];
      bool one = ir::IsConst(op->buffer->shape[d], 1);
      if (one ? !ir::IsConst(index, 0) : ir::HasLoad(index)) return Expr();
      if (!one) at.push_back(index);
    }
    auto written = written_.find(op->buffer.get());
    if (written != written_.end() && !AreSame(written->second, op->indices)) return Expr();
    bool own = at.size() == rank_;
    ir::Map<ir::Var, Expr> place;
    for (size_t d = 0; d < at.size(); ++d) {
      own = own && at[d].same_as(VarOf(d, ir::dtypes::kInt32));
      place.Set(vars_[d], ir::CastTo(ir::dtypes::kInt32, at[d]));
    }
    if (own) return it->second;
    return IsHeld(it->second) && IsBeside(at) ? ir::Substitute(it->second, place) : Expr();
  }

  // Returns whether the tile holds what a tensor has, or a number: nothing is computed twice if
  // several elements read it.
  static bool IsHeld(const Expr& value) {
    const Expr* held = &value;
    while (const auto* cast = (*held).as<ir::CastNode>()) held = &cast->value;
    return !ir::HasExpr(*held,
                        [&](const Expr& e) {
                          return e->kind == ir::ExprKind::kLoad && !e.same_as(*held);
                        }) &&
           ((*held)->kind == ir::ExprKind::kLoad || (*held)->kind == ir::ExprKind::kIntImm ||
            (*held)->kind == ir::ExprKind::kFloatImm);
  }

  // Returns whether neighbouring iterations read elements of one vector, or of a column. Windows
  // that move over a tile read each element several times.
  bool IsBeside(const std::vector<Expr>& at) {
    auto is_var = [&](const Expr& index) {
      return std::any_of(vars_.begin(), vars_.begin() + static_cast<std::ptrdiff_t>(rank_),
                         [&](const ir::Var& var) { return index.same_as(var); });
    };
    if (std::all_of(at.begin(), at.end(), is_var)) {
      reads_columns_ = reads_columns_ || at.size() > 1;
      return true;
    }
    arith::Analyzer analyzer;
    return std::all_of(at.begin(), at.end() - 1, is_var) &&
           IsNear(at.back(), vars_[rank_ - 1], &analyzer);
  }

  bool WriteTile(const Buffer& tile, const Expr& value) {
    if (SizeOf(value) > kMostNodes) return false;
    values_[tile.get()] = ir::CastTo(tile->dtype, value);
    return true;
  }

  // Stores an element of a tensor. All stores have one loop.
  bool Store(const Buffer& tensor, const ir::Array<Expr>& indices, const Expr& value,
             const Extents& extents, const ir::Span& span) {
    if (SizeOf(value) > kMostNodes || (!stores_.empty() && extents != stored_)) return false;
    stored_ = extents;
    stores_.push_back(ir::Store(tensor, indices, value, span));
    return true;
  }

  // Returns whether the stores of all elements may run in any order, and the loop accesses tensors
  // along their rows, or reads columns that shared tiles can hold.
  bool AreApart(const ir::ParallelForNode* loop) const {
    std::vector<ir::Effect> effects = ir::EffectsOf(loop->body);
    arith::Analyzer analyzer;
    for (const ir::Effect& e : effects) {
      bool reads = e.kind == ir::EffectKind::kRead;
      bool row = e.buffer.IsGlobal() && (GoesAlongRow(e, loop, &analyzer) ||
                                         (reads && ColumnsOf(e.buffer, e.indices, loop)));
      if (!row) return false;
      for (const ir::Effect& other : effects) {
        bool meet = &e != &other && e.Writes() && ir::MayOverlap(e.buffer, other.buffer);
        bool same = stores_.size() == 1 && e.buffer.same_as(other.buffer) &&
                    AreSame(e.indices, other.indices);
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

  // Returns whether neighbouring iterations of the last variable access neighbouring elements of a
  // row, or, where they read, elements of one vector.
  static bool GoesAlongRow(const ir::Effect& e, const ir::ParallelForNode* loop,
                           arith::Analyzer* analyzer) {
    const ir::Var& last = loop->vars.back();
    for (size_t d = 0; d < e.indices.size(); ++d) {
      const Expr& index = e.indices[d];
      auto stride = analyzer->StrideOf(index, last);
      bool in_row = d + 1 == e.indices.size();
      bool moves =
          stride ? *stride == 1 : e.kind == ir::EffectKind::kRead && IsNear(index, last, analyzer);
      if (stride != 0 && !(in_row && moves)) return false;
    }
    return true;
  }

  // Returns whether each kGroup neighbouring iterations access as many neighbouring elements, or
  // fewer.
  static bool IsNear(const Expr& index, const ir::Var& var, arith::Analyzer* analyzer) {
    constexpr int64_t kGroup = 8;
    ir::Var group("group", var.dtype());
    auto number = [](const Expr& e, int64_t value) { return ir::Const(e.dtype(), value); };
    auto vector = [&](int64_t lane) {
      Expr at = Expr(group) * number(group, kGroup) + number(group, lane);
      return ir::FloorDiv(ir::Substitute(index, {{var, at}}), number(index, kGroup));
    };
    bool near = true;
    for (int64_t lane = 1; lane < kGroup; ++lane) {
      near = near && analyzer->CanProveEqual(vector(lane), vector(0));
    }
    return near;
  }

  std::vector<ir::Var> vars_;
  std::vector<Stmt> names_;
  std::unordered_map<const ir::ffi::Object*, Expr> values_;  // of tiles
  // The tiles that the loop at hand has written, and the indices of the element.
  std::unordered_map<const ir::ffi::Object*, ir::Array<Expr>> written_;
  std::vector<Stmt> stores_;
  Extents stored_;         // of their loop
  size_t rank_ = 0;        // variables of the loop at hand
  bool computes_ = false;  // a program that only copies keeps its tiles
  bool reads_columns_ = false;
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
