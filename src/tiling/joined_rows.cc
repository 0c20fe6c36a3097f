#include "tiling/joined_rows.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/launch_extent.h"
#include "ir/visitor.h"
#include "transform/stage_rows.h"

namespace tilelang::tiling {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using ir::Var;

namespace {

Expr WithoutCasts(Expr e) {
  while (const auto* cast = e.as<ir::CastNode>()) {
    if (!ir::IsIntegral(cast->value.dtype())) break;
    e = cast->value;
  }
  return e;
}

bool IsOne(const Expr& e) { return ir::IsConst(e, 1); }

// Returns the fragments that are different in each block: a statement that writes them uses the
// index of the block, or reads such a fragment.
class DifferentFragments {
 public:
  DifferentFragments(const Stmt& body, const Var& row) : row_(row) {
    const auto* seq = body.as<ir::SeqNode>();
    size_t before = 0;
    do {
      before = found_.size();
      for (const Stmt& s : seq->stmts) {
        if (s->kind == ir::StmtKind::kAlloc || !AreIn(s)) continue;
        ir::WalkEffects(s, [&](const ir::Effect& effect) {
          if (effect.Writes() && effect.buffer.IsFragment()) found_.insert(effect.buffer.get());
        });
      }
    } while (found_.size() != before);
  }

  bool Has(const Buffer& buffer) const { return found_.count(buffer.get()) != 0; }
  // Returns whether a statement is different in each block.
  bool AreIn(const Stmt& s) const {
    bool found = ir::HasExpr(s, [&](const Expr& e) { return e.same_as(row_); });
    ir::WalkEffects(s, [&](const ir::Effect& effect) { found = found || Has(effect.buffer); });
    return found;
  }

 private:
  Var row_;
  std::unordered_set<const ir::BufferNode*> found_;
};

class Joiner : public ir::StmtMutator {
 public:
  Joiner(const ir::KernelLaunchNode* op, const Var& row, const Var& block, int64_t count,
         Expr rows_of_grid)
      : different_(op->body, row),
        row_(row),
        first_(block * ir::Const(block.dtype(), count)),
        count_(count),
        rows_of_grid_(std::move(rows_of_grid)) {}

  bool possible() const { return possible_; }

  // Rewrites a statement of the launch's body.
  Stmt Joined(const Stmt& s) {
    if (const auto* bind = s.as<ir::BindNode>()) return JoinedName(bind);
    Stmt named = ir::Substitute(s, names_);
    if (s->kind != ir::StmtKind::kAlloc && !different_.AreIn(named)) return named;
    return MutateStmt(named);
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::AllocNode* op) override {
    return ir::Alloc(MutateBuffer(op->buffer), op->span);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    if (Stmt loop = LoadedByThreads(op); loop.defined()) return MutateStmt(loop);
    return ir::Copy(op, RegionOf(op->src, false), RegionOf(op->dst, true));
  }
  Stmt Rewrite(const ir::FillNode* op) override {
    possible_ &= !UsesRow(op->value) && !ir::HasLoad(op->value);
    return ir::Fill(RegionOf(op->dst, true), op->value, op->span);
  }
  Stmt Rewrite(const ir::ReduceNode* op) override {
    bool leading = LeadingRow(op->src->buffer);
    possible_ &=
        op->src->buffer.IsFragment() && op->dst->buffer.IsFragment() && !(leading && op->dim == 0);
    return ir::Reduce(RegionOf(op->src, false), RegionOf(op->dst, true), op->op,
                      leading ? op->dim : op->dim + 1, op->clear, op->nan_propagate, op->slack,
                      op->span);
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    Var r("r", row_.dtype(), op->span);
    Array<Var> vars = {r};
    Array<Expr> extents = {ir::Const(r.dtype(), count_)};
    ir::Map<Var, Expr> values;
    for (size_t d = 0; d < op->vars.size(); ++d) {
      if (IsOne(op->extents[d])) {
        values.Set(op->vars[d], ir::Const(op->vars[d].dtype(), 0));
        continue;
      }
      possible_ &= !UsesRow(op->extents[d]);
      vars.push_back(op->vars[d]);
      extents.push_back(op->extents[d]);
    }
    number_ = r;
    Stmt body = MutateStmt(ir::Substitute(op->body, values));
    number_ = Expr();
    return ir::ParallelFor(vars, extents, body, op->annotations, op->span);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    if (op->buffer.IsGlobal()) possible_ &= EndsWithGrid(op->buffer, op->indices);
    Array<Expr> indices = IndicesOf(op->buffer, op->indices);
    return ir::Store(MutateBuffer(op->buffer), indices, Mutate(op->value), op->span);
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    bool outer = std::exchange(clamps_, clamps_ || op->buffer.IsGlobal());
    Array<Expr> indices = IndicesOf(op->buffer, op->indices);
    clamps_ = outer;
    return ir::Load(MutateBuffer(op->buffer), indices, op->span);
  }
  Expr Rewrite(const ir::VarNode* op) override {
    Expr self = ir::ffi::GetRef<Expr>(op);
    if (!self.same_as(row_)) return self;
    possible_ &= number_.defined();
    if (!number_.defined()) return self;
    Expr number = first_ + number_;
    if (!clamps_ || !rows_of_grid_.defined()) return number;
    // Threads without a row load the last one again. A branch around each load would let each wait
    // for the one before.
    Expr last = ir::CastTo(number.dtype(), rows_of_grid_) - ir::Const(number.dtype(), 1);
    return ir::Min(number, last);
  }

 protected:
  // The fragment of all rows: the first dimension is theirs, or one before it.
  Buffer MutateBuffer(const Buffer& buffer) override {
    if (!different_.Has(buffer)) return buffer;
    auto [it, is_new] = joined_.try_emplace(buffer.get());
    if (is_new) {
      Array<Expr> shape = {ir::Const(ir::dtypes::kInt32, count_)};
      for (size_t d = LeadingRow(buffer) ? 1 : 0; d < buffer->shape.size(); ++d) {
        shape.push_back(buffer->shape[d]);
      }
      possible_ &= buffer->strides.empty();
      it->second = Buffer(buffer->name, buffer->dtype, shape, {}, buffer->scope, buffer->attrs,
                          buffer->span);
    }
    return it->second;
  }

 private:
  static bool LeadingRow(const Buffer& buffer) {
    return !buffer->shape.empty() && IsOne(buffer->shape[0]);
  }
  bool UsesRow(const Expr& e) const { return ir::UsesVar(e, row_); }

  // A name of the row's is its value in each statement that follows.
  Stmt JoinedName(const ir::BindNode* op) {
    Expr value = ir::Substitute(op->value, names_);
    bool differs = UsesRow(value);
    differs = differs || ir::HasExpr(value, [&](const Expr& e) {
                const auto* load = e.as<ir::LoadNode>();
                return load != nullptr && different_.Has(load->buffer);
              });
    if (!differs) return ir::Bind(op->var, value, op->span);
    // Memory that a block writes may have changed until then.
    possible_ &= !ir::HasLoad(value);
    names_.Set(op->var, value);
    return ir::MakeSeq({}, op->span);
  }

  Array<Expr> IndicesOf(const Buffer& buffer, const Array<Expr>& given) {
    Array<Expr> indices = MutateExprs(given);
    if (!different_.Has(buffer)) return indices;
    possible_ &= number_.defined();
    if (!number_.defined()) return indices;
    Array<Expr> joined = {ir::CastTo(ir::dtypes::kInt32, number_)};
    for (size_t d = LeadingRow(buffer) ? 1 : 0; d < indices.size(); ++d) {
      joined.push_back(indices[d]);
    }
    return joined;
  }

  // Returns whether no row behind those of the grid is stored: it does not exist.
  bool EndsWithGrid(const Buffer& tensor, const Array<Expr>& indices) {
    if (!rows_of_grid_.defined()) return true;
    arith::Analyzer analyzer;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!WithoutCasts(indices[d]).same_as(row_)) continue;
      Expr rows = ir::CastTo(tensor->shape[d].dtype(), rows_of_grid_);
      if (analyzer.CanProveEqual(tensor->shape[d], rows)) return true;
    }
    return false;
  }

  // Returns the loop that loads a row whose place the hardware cannot copy, in the program's form;
  // undefined where the copy may stay, because no row is behind the grid, TMA or vectors load rows,
  // or stage_rows moves them.
  Stmt LoadedByThreads(const ir::CopyNode* op) {
    const Buffer& tensor = op->src->buffer;
    const Buffer& tile = op->dst->buffer;
    if (!rows_of_grid_.defined() || !tensor.IsGlobal() || !op->dst.IsWhole()) return Stmt();
    auto length = ir::AsInt(tensor->shape.back());
    int64_t bytes = length.value_or(0) * ir::Bytes(tensor->dtype);
    if (transform::HasVectors(bytes)) return Stmt();
    Array<Var> vars;
    Array<Expr> extents, from, to;
    size_t next = 0;
    for (const Expr& extent : tile->shape) {
      vars.push_back(Var("j", extent.dtype(), op->span));
      extents.push_back(extent);
      to.push_back(vars.back());
    }
    for (size_t d = 0; d < op->src->mins.size(); ++d) {
      Expr at = op->src->mins[d];
      while (next < vars.size() && IsOne(extents[next])) ++next;
      if (!IsOne(op->src->extents[d])) {
        bool same = next < vars.size() && ir::AsInt(extents[next]) &&
                    ir::AsInt(extents[next]) == ir::AsInt(op->src->extents[d]);
        if (!same) return Stmt();
        at = at + ir::CastTo(at.dtype(), vars[next++]);
      }
      from.push_back(at);
    }
    Expr value = ir::CastTo(tile->dtype, ir::Load(tensor, from, op->span));
    return ir::ParallelFor(vars, extents, ir::Store(tile, to, value, op->span), {}, op->span);
  }

  // Returns the region of all rows.
  Region RegionOf(const Region& region, bool written) {
    const Buffer& buffer = region->buffer;
    if (buffer.IsFragment()) {
      possible_ &= region.IsWhole() && different_.Has(buffer);
      return Region::Whole(MutateBuffer(buffer));
    }
    if (written) possible_ &= EndsWithGrid(buffer, region->mins);
    Array<Expr> mins = region->mins;
    Array<Expr> extents = region->extents;
    size_t dim = 0;
    while (dim < mins.size() && !UsesRow(mins[dim])) {
      possible_ &= IsOne(extents[dim]);
      ++dim;
    }
    bool selects =
        dim < mins.size() && WithoutCasts(mins[dim]).same_as(row_) && IsOne(extents[dim]);
    for (size_t d = dim + 1; d < mins.size(); ++d) selects = selects && !UsesRow(mins[d]);
    for (const Expr& extent : extents) selects = selects && !UsesRow(extent);
    possible_ &= selects;
    if (!selects) return region;
    mins.Set(dim, ir::CastTo(mins[dim].dtype(), first_));
    extents.Set(dim, ir::Const(extents[dim].dtype(), count_));
    return Region(buffer, mins, extents);
  }

  DifferentFragments different_;
  Var row_;
  Expr first_;  // row of the block
  int64_t count_;
  Expr rows_of_grid_;    // undefined: all blocks have `count_` rows
  Expr number_;          // of a row, in a parallel loop
  bool clamps_ = false;  // the indices of a load
  ir::Map<Var, Expr> names_;
  std::unordered_map<const ir::BufferNode*, Buffer> joined_;
  bool possible_ = true;
};

}  // namespace

Stmt WithJoinedRows(const ir::KernelLaunchNode* op, size_t axis, int64_t count, bool whole) {
  const Var& row = op->block_vars[axis];
  Expr inside = ir::ExtentInside(op->grid[axis]);
  Var block(row->name, row.dtype(), op->span);
  Joiner joiner(op, row, block, count, whole ? Expr() : inside);
  std::vector<Stmt> stmts;
  for (const Stmt& s : op->body.as<ir::SeqNode>()->stmts) stmts.push_back(joiner.Joined(s));
  if (!joiner.possible()) return Stmt();
  Array<Var> vars = op->block_vars;
  vars.Set(axis, block);
  Array<Expr> grid = op->grid;
  Expr blocks = ir::CeilDiv(inside, ir::Const(inside.dtype(), count));
  grid.Set(axis, ir::EmptyLike(grid[axis], blocks));
  return ir::KernelLaunch(vars, grid, op->thread_vars, op->threads, op->attrs,
                          ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span), op->span);
}

}  // namespace tilelang::tiling
