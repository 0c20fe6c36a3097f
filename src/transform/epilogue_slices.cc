#include "transform/epilogue_slices.h"

#include <algorithm>
#include <string>

#include "arith/analyzer.h"
#include "ir/fresh_copy.h"
#include "op/reduce_values.h"

namespace tilelang::transform {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using ir::Var;
using Kind = EpilogueTile::Kind;
using Place = EpilogueStep::Place;

namespace {

// A tile of `width` columns beside the others, named by its number.
Buffer Piece(const Buffer& tile, int64_t width, int64_t number) {
  Array<Expr> shape = tile->shape;
  auto last = static_cast<int64_t>(shape.size()) - 1;
  shape.Set(last, ir::Const(shape[last].dtype(), width));
  ir::String name(std::string(tile->name) + "_" + std::to_string(number));
  bool registers = tile.IsTmem();
  return Buffer(name, tile->dtype, shape, {},
                registers ? ir::String("local.fragment") : tile->scope, tile->attrs, tile->span);
}

// Columns [first, first + width) of a region.
Region Columns(const Region& region, int64_t first, int64_t width) {
  Array<Expr> mins = region->mins;
  Array<Expr> extents = region->extents;
  auto last = static_cast<int64_t>(mins.size()) - 1;
  mins.Set(last, mins[last] + ir::Const(mins[last].dtype(), first));
  extents.Set(last, ir::Const(extents[last].dtype(), width));
  return Region(region->buffer, mins, extents);
}

// Copies of statements for one slice.
class Slice : public ir::FreshCopy {
 public:
  Slice(const EpilogueRegion& region, int64_t number, ir::Map<Buffer, Buffer> pieces)
      : region_(region), number_(number), pieces_(std::move(pieces)) {}

  Stmt Of(const EpilogueStep& step) {
    if (const auto* loop = step.stmt.as<ir::ParallelForNode>()) return Loop(loop, step.column);
    if (const auto* op = step.stmt.as<ir::FillNode>()) {
      return ir::Fill(Side(op->dst, 0), op->value, op->span);
    }
    if (const auto* op = step.stmt.as<ir::CopyNode>()) {
      const EpilogueTile* tile = region_.Find(op->src->buffer);
      if (tile == nullptr) tile = region_.Find(op->dst->buffer);
      return ir::Copy(Side(op->src, tile->width), Side(op->dst, tile->width), op->annotations,
                      op->span);
    }
    const auto* op = step.stmt.as<ir::ReduceNode>();
    bool folds = region_.Find(op->dst->buffer) == nullptr;
    Region dst = folds ? op->dst : Side(op->dst, 0);
    bool clear = op->clear && (!folds || number_ == 0);
    return ir::Reduce(Side(op->src, 0), dst, op->op, op->dim, clear, op->nan_propagate, op->slack,
                      op->span);
  }

  Buffer PieceOf(const Buffer& tile) const { return pieces_.Get(tile).value_or(tile); }

  using FreshCopy::Rewrite;
  Expr Rewrite(const ir::LoadNode* op) override {
    auto [buffer, indices] = Element(op->buffer, op->indices);
    return ir::Load(buffer, indices, op->span);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    auto [buffer, indices] = Element(op->buffer, op->indices);
    return ir::Store(buffer, indices, Mutate(op->value), op->span);
  }

 private:
  int64_t First(int64_t width) const { return width / region_.slices * number_; }

  Stmt Loop(const ir::ParallelForNode* loop, size_t column) {
    Array<Var> vars;
    Array<Expr> extents = loop->extents;
    for (size_t i = 0; i < loop->vars.size(); ++i) {
      const Var& var = loop->vars[i];
      Var fresh(var->name, var.dtype(), var->span);
      vars.push_back(fresh);
      if (i != column) {
        Set(var, fresh);
        continue;
      }
      int64_t width = *ir::AsInt(extents[i]);
      extents.Set(static_cast<int64_t>(i), ir::Const(extents[i].dtype(), width / region_.slices));
      Set(var, fresh + ir::Const(var.dtype(), First(width)));
    }
    return ir::ParallelFor(vars, extents, MutateStmt(loop->body), loop->annotations, loop->span);
  }

  std::pair<Buffer, Array<Expr>> Element(const Buffer& buffer, const Array<Expr>& indices) {
    Array<Expr> at = MutateExprs(indices);
    auto piece = pieces_.Get(buffer);
    if (!piece) return {buffer, at};
    auto last = static_cast<int64_t>(at.size()) - 1;
    int64_t first = First(region_.Find(buffer)->width);
    at.Set(last, arith::Analyzer().Simplify(at[last] - ir::Const(at[last].dtype(), first)));
    return {*piece, at};
  }

  // Of a tile, the piece; of a tensor, as many columns as it has beside a tile of `width`.
  Region Side(const Region& region, int64_t width) const {
    if (auto piece = pieces_.Get(region->buffer)) return Region::Whole(*piece);
    const EpilogueTile* tile = region_.Find(region->buffer);
    if (tile != nullptr) width = tile->width;
    return Columns(region, First(width), width / region_.slices);
  }

  const EpilogueRegion& region_;
  int64_t number_;
  ir::Map<Buffer, Buffer> pieces_;
};

class Writer {
 public:
  Writer(const EpilogueRegion& region, const SliceOptions& options)
      : region_(region), options_(options), result_{region.hoisted, {}} {}

  SlicedEpilogue Run() {
    for (const EpilogueTile& tile : region_.tiles) AllocateSlots(tile);
    for (int64_t number = 0; number < region_.slices; ++number) {
      slices_.emplace_back(region_, number, PiecesOf(number));
    }
    for (int64_t number = 0; number < region_.slices; ++number) AppendFirstLoads(number);
    Append(Place::kBefore);
    for (int64_t number = 0; number < region_.slices; ++number) AppendSlice(number);
    for (const ir::ReduceNode* op : gathered_) {
      Buffer running = *running_.Get(op->dst->buffer);
      result_.stmts.push_back(ir::Reduce(Region::Whole(running), op->dst,
                                         op::ReductionOf(op).OfPrepared(), op->dim, op->clear,
                                         op->nan_propagate, op->slack, op->span));
    }
    Append(Place::kAfter);
    return std::move(result_);
  }

 private:
  void Append(Place place) {
    for (const EpilogueStep& step : region_.steps) {
      if (step.place == place) result_.stmts.push_back(step.stmt);
    }
  }

  void AllocateSlots(const EpilogueTile& tile) {
    std::vector<Buffer>& slots = slots_of_.emplace_back();
    if (tile.kind != Kind::kStaging) return;
    for (int64_t i = 0; i < std::min(options_.slots, region_.slices); ++i) {
      slots.push_back(Piece(tile.buffer, tile.width / region_.slices, i));
      result_.hoisted.push_back(ir::Alloc(slots.back(), tile.buffer->span));
    }
  }

  ir::Map<Buffer, Buffer> PiecesOf(int64_t number) {
    ir::Map<Buffer, Buffer> pieces;
    for (size_t i = 0; i < region_.tiles.size(); ++i) {
      const EpilogueTile& tile = region_.tiles[i];
      if (tile.kind == Kind::kWhole) continue;
      if (tile.kind == Kind::kStaging) {
        pieces.Set(tile.buffer, slots_of_[i][static_cast<size_t>(number) % slots_of_[i].size()]);
      } else {
        pieces.Set(tile.buffer, Piece(tile.buffer, tile.width / region_.slices, number));
      }
    }
    return pieces;
  }

  // The tile is a piece of registers that a step ahead fills.
  bool IsLoadedAhead(const Buffer& buffer) const {
    return std::any_of(region_.steps.begin(), region_.steps.end(), [&](const EpilogueStep& step) {
      return step.ahead && ir::UsesBuffer(step.stmt, buffer);
    });
  }

  // How many slices earlier a step stands: one that fills slots leaves those of the slices between.
  int64_t Distance(const EpilogueStep& step) const {
    for (size_t i = 0; i < region_.tiles.size(); ++i) {
      const EpilogueTile& tile = region_.tiles[i];
      if (tile.kind != Kind::kStaging || !ir::UsesBuffer(step.stmt, tile.buffer)) continue;
      return static_cast<int64_t>(slots_of_[i].size()) - 1;
    }
    return 1;
  }

  void Allocate(int64_t number, std::vector<Stmt>* stmts) {
    for (const EpilogueTile& tile : region_.tiles) {
      bool registers = tile.kind == Kind::kAccumulator || tile.kind == Kind::kRegisters;
      if (!registers || IsLoadedAhead(tile.buffer)) continue;
      stmts->push_back(ir::Alloc(slices_[number].PieceOf(tile.buffer), tile.buffer->span));
    }
  }

  void AppendLoad(const EpilogueStep& step, int64_t number, std::vector<Stmt>* stmts) {
    if (number >= region_.slices) return;
    for (const EpilogueTile& tile : region_.tiles) {
      if (tile.kind != Kind::kRegisters || !ir::UsesBuffer(step.stmt, tile.buffer)) continue;
      stmts->push_back(ir::Alloc(slices_[number].PieceOf(tile.buffer), tile.buffer->span));
    }
    stmts->push_back(slices_[number].Of(step));
  }

  void AppendFirstLoads(int64_t number) {
    for (const EpilogueStep& step : region_.steps) {
      if (step.ahead && number < Distance(step)) AppendLoad(step, number, &result_.hoisted);
    }
  }

  void AppendSlice(int64_t number) {
    for (const EpilogueStep& step : region_.steps) {
      if (step.ahead) AppendLoad(step, number + Distance(step), &result_.stmts);
    }
    Allocate(number, &result_.stmts);
    for (const EpilogueTile& tile : region_.tiles) {
      if (tile.kind != Kind::kAccumulator) continue;
      int64_t width = tile.width / region_.slices;
      Region columns = Columns(Region::Whole(tile.buffer), number * width, width);
      result_.stmts.push_back(ir::Copy(columns, Region::Whole(slices_[number].PieceOf(tile.buffer)),
                                       {}, FirstUse(tile.buffer)));
    }
    for (const EpilogueStep& step : region_.steps) {
      if (step.place != Place::kSliced || step.ahead) continue;
      const auto* reduce = step.stmt.as<ir::ReduceNode>();
      bool folds = reduce != nullptr && region_.Find(reduce->dst->buffer) == nullptr;
      if (folds && options_.gathers) {
        Gather(reduce, slices_[number].PieceOf(reduce->src->buffer), number == 0);
      } else {
        result_.stmts.push_back(slices_[number].Of(step));
      }
    }
  }

  // Takes the elements of a slice into as many running values.
  void Gather(const ir::ReduceNode* op, const Buffer& piece, bool first) {
    op::Reduction reduction = op::ReductionOf(op);
    if (first) {
      Buffer running(ir::String(std::string(op->dst->buffer->name) + "_running"), reduction.type,
                     piece->shape, {}, "local.fragment", {}, op->span);
      running_.Set(op->dst->buffer, running);
      result_.stmts.push_back(ir::Alloc(running, op->span));
      gathered_.push_back(op);
    }
    Buffer running = *running_.Get(op->dst->buffer);
    Array<Var> vars;
    for (size_t i = 0; i < piece->shape.size(); ++i) {
      vars.push_back(Var(i + 1 < piece->shape.size() ? "i" : "j", ir::dtypes::kInt32, op->span));
    }
    Array<Expr> at(vars.begin(), vars.end());
    Expr value = reduction.Prepared(ir::Load(piece, at, op->span));
    if (!first) value = reduction.Combine(ir::Load(running, at, op->span), value);
    result_.stmts.push_back(
        ir::ParallelFor(vars, piece->shape, ir::Store(running, at, value, op->span), {}, op->span));
  }

  ir::Span FirstUse(const Buffer& buffer) const {
    for (const EpilogueStep& step : region_.steps) {
      if (ir::UsesBuffer(step.stmt, buffer)) return step.stmt.span();
    }
    return buffer->span;
  }

  const EpilogueRegion& region_;
  const SliceOptions& options_;
  SlicedEpilogue result_;
  std::vector<std::vector<Buffer>> slots_of_;  // of each tile
  std::vector<Slice> slices_;
  std::vector<const ir::ReduceNode*> gathered_;
  ir::Map<Buffer, Buffer> running_;  // of what they reduce to
};

}  // namespace

SlicedEpilogue WriteSlices(const EpilogueRegion& region, const SliceOptions& options) {
  return Writer(region, options).Run();
}

}  // namespace tilelang::transform
