#include "epilogue/epilogue_loop.h"

#include <algorithm>
#include <unordered_set>

#include "arith/analyzer.h"
#include "arith/structural.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "op/index_eval.h"

namespace tilelang::epilogue {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

// Stand for the rows and the columns in all statements.
const Var& Column() {
  static const Var column("column", ir::dtypes::kInt32);
  return column;
}
Var Row(size_t i) {
  static const Var rows[] = {Var("row", ir::dtypes::kInt32), Var("row1", ir::dtypes::kInt32),
                             Var("row2", ir::dtypes::kInt32)};
  return rows[std::min<size_t>(i, 2)];
}

}  // namespace

bool SameElements(const GlobalAccess& a, const GlobalAccess& b) {
  if (a.indices.size() != b.indices.size()) return false;
  arith::Analyzer analyzer;
  for (size_t i = 0; i < a.indices.size(); ++i) {
    if (arith::SameStructure(a.indices[i], b.indices[i])) continue;
    if (!analyzer.CanProveEqual(a.indices[i], b.indices[i])) return false;
  }
  return true;
}

bool OtherColumns(const GlobalAccess& a, const GlobalAccess& b) {
  if (a.columns != b.columns || a.indices.size() != b.indices.size()) return false;
  arith::Analyzer analyzer;
  const Expr& at = a.indices.back();
  auto apart = ir::AsInt(analyzer.Simplify(b.indices.back() - at));
  Expr first = ir::Substitute(at, {{Column(), ir::Const(Column().dtype(), 0)}});
  for (size_t i = 0; i < a.indices.size(); ++i) {
    if (ir::UsesVar(first, Row(i))) return false;
  }
  op::IndexFunction column(analyzer.Simplify(at - first), {Column()},
                           [](const Var&) { return std::nullopt; });
  if (!apart || !column.ok()) return false;
  std::unordered_set<int64_t> columns;
  for (int64_t j = 0; j < a.columns; ++j) columns.insert(column({j}));
  return std::none_of(columns.begin(), columns.end(),
                      [&](int64_t at) { return columns.count(at + *apart) != 0; });
}

GlobalAccess AccessOf(const ir::Region& region, bool writes, const ir::Span& span) {
  GlobalAccess access{region->buffer, region->mins, writes, span};
  access.columns = ir::AsInt(region->extents.back()).value_or(0);
  size_t rows = 0;
  auto rank = static_cast<int64_t>(region->mins.size());
  for (int64_t i = 0; i < rank; ++i) {
    if (i + 1 < rank && ir::IsConst(region->extents[i], 1)) continue;
    Expr var = i + 1 == rank ? Column() : Row(rows++);
    access.indices.Set(i, region->mins[i] + ir::CastTo(region->mins[i].dtype(), var));
  }
  return access;
}

EpilogueLoop::EpilogueLoop(const ir::ParallelForNode* loop, const EpilogueRegion& region)
    : loop_(loop), region_(region), column_(loop->vars.size()) {
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    if (const auto* bind = s.as<ir::BindNode>()) names_.Set(bind->var, Expanded(bind->value));
    return true;
  });
  ir::WalkEffects(loop->body, [&](const ir::Effect& e) {
    if (region.Find(e.buffer) == nullptr || e.indices.empty()) return;
    for (size_t i = 0; i < loop->vars.size(); ++i) {
      if (ir::UsesVar(Expanded(e.indices.back()), loop->vars[i])) column_ = i;
    }
  });
}

Expr EpilogueLoop::Expanded(const Expr& e) const { return ir::Substitute(e, names_); }

Array<Expr> EpilogueLoop::Indices(const Array<Expr>& indices) const {
  Array<Expr> expanded;
  for (const Expr& index : indices) expanded.push_back(Expanded(index));
  return expanded;
}

std::vector<Buffer> EpilogueLoop::AtColumns() const {
  std::vector<Buffer> found;
  if (column_ == loop_->vars.size()) return found;
  ir::WalkEffects(loop_->body, [&](const ir::Effect& e) {
    bool here = e.buffer.IsFragment() || e.buffer.IsShared() || e.buffer.IsTmem();
    if (!here || e.indices.empty()) return;
    if (ir::UsesVar(Expanded(e.indices.back()), loop_->vars[column_])) found.push_back(e.buffer);
  });
  return found;
}

// Each slice of the loop's iterations uses the same slice of the tile.
EpilogueObstacle EpilogueLoop::CheckColumn(const EpilogueTile& tile, const Array<Expr>& indices,
                                           const ir::Span& span) const {
  auto named = [&] { return ir::Print(ir::Load(tile.buffer, indices)); };
  const Var& column = loop_->vars[column_];
  for (size_t i = 0; i + 1 < indices.size(); ++i) {
    if (ir::UsesVar(indices[i], column)) return {named() + " uses the column as its row", span};
  }
  op::IndexFunction at(indices.back(), {column}, [](const Var&) { return std::nullopt; });
  if (!at.ok())
    return {"the column of " + named() + " does not depend on one variable alone", span};
  const ColumnSlices& slices = region_.slices;
  int64_t extent = *ir::AsInt(loop_->extents[column_]);
  for (int64_t j = 0; j < extent; ++j) {
    int64_t value = at({j});
    ColumnSlices::Place place = slices.PlaceOf(extent, j);
    int64_t first = at({slices.First(extent, place.slice, place.part)});
    bool inside = value >= 0 && value < tile.width && first >= 0 && first < tile.width;
    if (inside && slices.PlaceOf(tile.width, value).slice == place.slice &&
        slices.PlaceOf(tile.width, value) == slices.PlaceOf(tile.width, first)) {
      continue;
    }
    return {named() + " is in another slice of columns than iteration " + std::to_string(j), span};
  }
  return {};
}

EpilogueObstacle EpilogueLoop::CheckElement(const Buffer& buffer, const Array<Expr>& indices,
                                            bool writes, const ir::Span& span) const {
  const EpilogueTile* tile = region_.Find(buffer);
  if (tile != nullptr) {
    if (!region_.slices.Divides(tile->width)) {
      return {std::string(buffer->name) + " has no " + std::to_string(region_.slices.count) +
                  " equal slices",
              span};
    }
    return CheckColumn(*tile, indices, span);
  }
  if (writes && !buffer.IsGlobal()) {
    return {"T.Parallel writes " + std::string(buffer->name) + " beside the tile", span};
  }
  if (!buffer.IsFragment()) return {};
  for (const Expr& index : indices) {
    if (ir::UsesVar(index, loop_->vars[column_])) {
      return {ir::Print(ir::Load(buffer, indices)) + " uses the column as its row", span};
    }
  }
  return {};
}

int64_t EpilogueLoop::PartOf(const EpilogueTile& tile, const Array<Expr>& indices, int64_t slice,
                             int64_t part) const {
  op::IndexFunction at(Expanded(indices.back()), {loop_->vars[column_]},
                       [](const Var&) { return std::nullopt; });
  int64_t first = region_.slices.First(*ir::AsInt(loop_->extents[column_]), slice, part);
  return region_.slices.PlaceOf(tile.width, at({first})).part;
}

// Returns what in the body prevents slices.
EpilogueObstacle EpilogueLoop::CheckForm() const {
  EpilogueObstacle found;
  ir::WalkStmts(loop_->body, [&](const Stmt& s) {
    bool known = s->kind == ir::StmtKind::kSeq || s->kind == ir::StmtKind::kBind ||
                 s->kind == ir::StmtKind::kStore || s->kind == ir::StmtKind::kIf ||
                 s->kind == ir::StmtKind::kFor || s->kind == ir::StmtKind::kEvaluate;
    if (!known) found = {"T.Parallel contains more than stores of elements", s.span()};
    return known;
  });
  ir::WalkExprs(loop_->body, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call != nullptr && !ir::IsAtomic(call) && !arith::IsPureCall(call)) {
      found = {std::string(call->name) + " has side effects", e.span()};
    }
    return true;
  });
  return found;
}

EpilogueObstacle EpilogueLoop::Check() const {
  if (column_ == loop_->vars.size())
    return {"T.Parallel runs over other columns than those of the tile", loop_->span};
  if (loop_->annotations.count("loop_layout") != 0) {
    return {"the program gives the layout of T.Parallel", loop_->span};
  }
  auto extent = ir::AsInt(loop_->extents[column_]);
  if (!extent || !region_.slices.Divides(*extent)) {
    return {"T.Parallel has no " + std::to_string(region_.slices.count) + " equal slices",
            loop_->span};
  }
  EpilogueObstacle found = CheckForm();
  ir::WalkEffects(loop_->body, [&](const ir::Effect& e) {
    if (!found.text.empty()) return;
    bool address = e.kind == ir::EffectKind::kAddress && !e.buffer.IsGlobal();
    found = address ? EpilogueObstacle{"the address of " + std::string(e.buffer->name) + " is used",
                                       e.span}
                    : CheckElement(e.buffer, Indices(e.indices), e.Writes(), e.span);
  });
  return found;
}

std::vector<GlobalAccess> EpilogueLoop::global() const {
  ir::Map<Var, Expr> same;
  size_t rows = 0;
  for (size_t i = 0; i < loop_->vars.size(); ++i) {
    Expr var = i == column_ ? Column() : Row(rows++);
    same.Set(loop_->vars[i], ir::CastTo(loop_->vars[i].dtype(), var));
  }
  bool known = column_ < loop_->vars.size();
  int64_t columns = known ? ir::AsInt(loop_->extents[column_]).value_or(0) : 0;
  std::vector<GlobalAccess> found;
  ir::WalkEffects(loop_->body, [&](const ir::Effect& e) {
    if (!e.buffer.IsGlobal()) return;
    GlobalAccess access{e.buffer, {}, e.Writes(), e.span, columns};
    for (const Expr& index : e.indices) {
      access.indices.push_back(ir::Substitute(Expanded(index), same));
    }
    found.push_back(access);
  });
  return found;
}

}  // namespace tilelang::epilogue
