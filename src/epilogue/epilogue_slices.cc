#include "epilogue/epilogue_slices.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "arith/analyzer.h"
#include "epilogue/epilogue_loop.h"
#include "ir/fresh_copy.h"
#include "ir/remark.h"
#include "op/reduce_values.h"

namespace tilelang::epilogue {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using ir::Var;
using Kind = EpilogueTile::Kind;
using Place = EpilogueStep::Place;

namespace {

// The pieces of each tile, by part.
using Pieces = ir::Map<Buffer, Array<Buffer>>;

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
  Slice(const EpilogueRegion& region, int64_t number, Pieces pieces)
      : region_(region), number_(number), pieces_(std::move(pieces)) {}

  // One statement for each part.
  void Append(const EpilogueStep& step, std::vector<Stmt>* stmts) {
    int64_t parts = region_.slices.Parts(WidthOf(step));
    for (part_ = 0; part_ < parts; ++part_) stmts->push_back(Part(step));
  }

  // Empty where the tile stays whole.
  Array<Buffer> PiecesOf(const Buffer& tile) const {
    return pieces_.Get(tile).value_or(Array<Buffer>());
  }

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
  int64_t First(int64_t width) const { return region_.slices.First(width, number_, part_); }

  // The columns that a step goes through.
  static int64_t WidthOf(const EpilogueStep& step) {
    const Stmt& s = step.stmt;
    if (const auto* loop = s.as<ir::ParallelForNode>())
      return *ir::AsInt(loop->extents[step.column]);
    if (const auto* op = s.as<ir::FillNode>()) return *ir::AsInt(op->dst->extents.back());
    if (const auto* op = s.as<ir::CopyNode>()) return *ir::AsInt(op->src->extents.back());
    return *ir::AsInt(s.as<ir::ReduceNode>()->src->extents.back());
  }

  Stmt Part(const EpilogueStep& step) {
    if (const auto* loop = step.stmt.as<ir::ParallelForNode>()) return Loop(loop, step.column);
    if (const auto* op = step.stmt.as<ir::FillNode>()) {
      return ir::Fill(Side(op->dst), op->value, op->span);
    }
    if (const auto* op = step.stmt.as<ir::CopyNode>()) {
      return ir::Copy(op, [&](ir::CopyNode* part) {
        part->src = Side(op->src);
        part->dst = Side(op->dst);
        if (!op->options->part_of.empty()) return;
        part->options = op->options.But(
            [&](ir::CopyOptionsNode* options) { options->part_of = TextOfCopy(op); });
      });
    }
    const auto* op = step.stmt.as<ir::ReduceNode>();
    bool folds = region_.Find(op->dst->buffer) == nullptr;
    Region dst = folds ? op->dst : Side(op->dst);
    bool clear = op->clear && (!folds || number_ + part_ == 0);
    return ir::Reduce(Side(op->src), dst, op->op, op->dim, clear, op->nan_propagate, op->slack,
                      op->span);
  }

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
      extents.Set(static_cast<int64_t>(i),
                  ir::Const(extents[i].dtype(), region_.slices.Columns(width)));
      Set(var, fresh + ir::Const(var.dtype(), First(width)));
      analyzer_.Bind(fresh, ir::Const(var.dtype(), 0), extents[i]);
    }
    EpilogueLoop view(loop, region_);
    view_ = &view;
    Stmt body = MutateStmt(loop->body);
    return ir::ParallelFor(vars, extents, body, loop->annotations, loop->span);
  }

  std::pair<Buffer, Array<Expr>> Element(const Buffer& buffer, const Array<Expr>& indices) {
    Array<Expr> at = MutateExprs(indices);
    Array<Buffer> pieces = PiecesOf(buffer);
    if (pieces.empty()) return {buffer, at};
    const EpilogueTile* tile = region_.Find(buffer);
    int64_t part = view_->PartOf(*tile, indices, number_, part_);
    int64_t first = region_.slices.First(tile->width, number_, part);
    auto last = static_cast<int64_t>(at.size()) - 1;
    at.Set(last, analyzer_.Simplify(at[last] - ir::Const(at[last].dtype(), first)));
    return {pieces[part], at};
  }

  // Returns the piece of a tile, or as many columns of a tensor.
  Region Side(const Region& region) const {
    Array<Buffer> pieces = PiecesOf(region->buffer);
    int64_t width = *ir::AsInt(region->extents.back());
    if (pieces.empty()) return Columns(region, First(width), region_.slices.Columns(width));
    return Region::Whole(pieces[region_.HalfOf(region).value_or(part_)]);
  }

  const EpilogueRegion& region_;
  int64_t number_;
  int64_t part_ = 0;
  Pieces pieces_;
  arith::Analyzer analyzer_;
  const EpilogueLoop* view_ = nullptr;  // the loop that is copied
};

class Writer {
 public:
  Writer(const EpilogueRegion& region, const SliceOptions& options)
      : region_(region), options_(options), result_{region.hoisted, {}} {}

  SlicedEpilogue Run() {
    for (const EpilogueTile& tile : region_.tiles) AllocateSlots(tile);
    for (int64_t number = 0; number < region_.slices.count; ++number) {
      slices_.emplace_back(region_, number, PiecesOf(number));
    }
    for (int64_t number = 0; number < region_.slices.count; ++number) AppendFirstLoads(number);
    Append(Place::kBefore);
    for (int64_t number = 0; number < region_.slices.count; ++number) AppendSlice(number);
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
    std::vector<Array<Buffer>>& slots = slots_of_.emplace_back();
    if (tile.kind != Kind::kStaging) return;
    for (int64_t i = 0; i < std::min(options_.slots, region_.slices.count); ++i) {
      slots.push_back(PiecesOf(tile, i));
      for (const Buffer& piece : slots.back()) {
        result_.hoisted.push_back(ir::Alloc(piece, tile.buffer->span));
      }
    }
  }

  Array<Buffer> PiecesOf(const EpilogueTile& tile, int64_t number) const {
    Array<Buffer> pieces;
    int64_t parts = region_.slices.Parts(tile.width);
    for (int64_t part = 0; part < parts; ++part) {
      pieces.push_back(
          Piece(tile.buffer, region_.slices.Columns(tile.width), number * parts + part));
    }
    return pieces;
  }

  Pieces PiecesOf(int64_t number) {
    Pieces pieces;
    for (size_t i = 0; i < region_.tiles.size(); ++i) {
      const EpilogueTile& tile = region_.tiles[i];
      if (tile.kind == Kind::kWhole) continue;
      if (tile.kind == Kind::kStaging) {
        pieces.Set(tile.buffer, slots_of_[i][static_cast<size_t>(number) % slots_of_[i].size()]);
      } else {
        pieces.Set(tile.buffer, PiecesOf(tile, number));
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

  // Returns how many slices earlier a step runs. A step that fills slots leaves the slots of the
  // slices in between.
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
      if (registers && !IsLoadedAhead(tile.buffer)) AllocatePieces(tile.buffer, number, stmts);
    }
  }

  void AllocatePieces(const Buffer& tile, int64_t number, std::vector<Stmt>* stmts) const {
    for (const Buffer& piece : slices_[number].PiecesOf(tile)) {
      stmts->push_back(ir::Alloc(piece, tile->span));
    }
  }

  void AppendLoad(const EpilogueStep& step, int64_t number, std::vector<Stmt>* stmts) {
    if (number >= region_.slices.count) return;
    for (const EpilogueTile& tile : region_.tiles) {
      bool filled = tile.kind == Kind::kRegisters && ir::UsesBuffer(step.stmt, tile.buffer);
      if (filled) AllocatePieces(tile.buffer, number, stmts);
    }
    slices_[number].Append(step, stmts);
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
      int64_t width = region_.slices.Columns(tile.width);
      int64_t part = 0;
      for (const Buffer& piece : slices_[number].PiecesOf(tile.buffer)) {
        int64_t first = region_.slices.First(tile.width, number, part++);
        result_.stmts.push_back(ir::Copy(Columns(Region::Whole(tile.buffer), first, width),
                                         Region::Whole(piece), FirstUse(tile.buffer)));
      }
    }
    for (const EpilogueStep& step : region_.steps) {
      if (step.place != Place::kSliced || step.ahead) continue;
      const auto* reduce = step.stmt.as<ir::ReduceNode>();
      bool folds = reduce != nullptr && region_.Find(reduce->dst->buffer) == nullptr;
      if (folds && options_.gathers) {
        bool first = number == 0;
        for (const Buffer& piece : slices_[number].PiecesOf(reduce->src->buffer)) {
          Gather(reduce, piece, std::exchange(first, false));
        }
      } else {
        slices_[number].Append(step, &result_.stmts);
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
  std::vector<std::vector<Array<Buffer>>> slots_of_;  // of each tile, their parts
  std::deque<Slice> slices_;
  std::vector<const ir::ReduceNode*> gathered_;
  ir::Map<Buffer, Buffer> running_;  // of what they reduce to
};

}  // namespace

SlicedEpilogue WriteSlices(const EpilogueRegion& region, const SliceOptions& options) {
  return Writer(region, options).Run();
}

}  // namespace tilelang::epilogue
