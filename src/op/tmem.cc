#include "op/tmem.h"

#include "ir/error.h"
#include "ir/printer.h"
#include "ir/tmem_views.h"
#include "ir/visitor.h"
#include "op/column_owner.h"
#include "op/copy.h"

namespace tilelang::op {

TmemLayout AccumulatorOfBlock(int64_t rows, int64_t columns, int64_t bits,
                              const layout::MmaForm& form) {
  if (form.cta_group == 1) return layout::AccumulatorLayout(rows, columns, bits, form);
  return layout::AccumulatorLayout(2 * rows, columns, bits, form).Slice({0, 0}, {rows, columns});
}

TmemLayout LayoutForRole(const Buffer& buffer, TmemRole role, const layout::MmaForm& form) {
  Coord shape = StaticShape(buffer);
  if (shape.size() < 2) {
    TL_USER_ERROR(kShape, buffer->span,
                  "T.alloc_tmem takes [.., rows, columns]; " << std::string(buffer->name)
                                                             << " has shape "
                                                             << layout::CoordToString(shape));
  }
  int64_t rows = shape[shape.size() - 2];
  int64_t cols = shape.back();
  bool few = rows == 32 && form.weight_stationary;
  if (!few && rows != 64 && rows % 128 != 0) {
    TL_USER_ERROR(kResource, buffer->span,
                  "tensor memory has 128 lanes: a tile has 64 rows or a multiple of 128, but "
                      << std::string(buffer->name) << " has " << rows << " rows (shape "
                      << layout::CoordToString(shape) << "); allocate "
                      << (rows < 64 ? 64 : (rows + 127) / 128 * 128)
                      << " rows and use the first ones");
  }
  int64_t bits = buffer->dtype.bits;
  int64_t block = std::min<int64_t>(rows, 128);
  TmemLayout tile = role == TmemRole::kAccumulator
                        ? AccumulatorOfBlock(block, cols, bits, form)
                        : layout::OperandALayout(block, cols, bits, form);
  int64_t blocks = layout::Product(shape) / (block * cols);
  int64_t step = 0;
  if (auto below = buffer->attrs.Get(kColumnsOf)) {
    step = LayoutForRole((*below).cast<Buffer>(), TmemRole::kAccumulator)->Columns() / blocks;
  }
  if (blocks > 1) tile = tile.Staged(blocks, step);
  return tile.Reshape(shape);
}

void SetDefaultRole(const Buffer& buffer, const Span& user, Context* ctx) {
  if (ctx->layouts->Has(buffer) || SetViewLayout(buffer, user, ctx)) return;
  TmemRole role = buffer->dtype.bits == 32 ? TmemRole::kAccumulator : TmemRole::kOperandA;
  ctx->layouts->Set(buffer, LayoutForRole(buffer, role), user);
}

int64_t ColumnsOf(const Buffer& buffer, const TmemLayout& layout) { return layout->Columns(); }

int64_t MostColumnsOf(const Buffer& accumulator) {
  Coord shape = StaticShape(accumulator);
  int64_t rows = shape[shape.size() - 2];
  int64_t blocks = (rows + layout::kTmemLanes - 1) / layout::kTmemLanes;
  return layout::Product(shape) / rows * blocks;
}

int64_t ColumnsOfTiles(const Stmt& s) {
  int64_t columns = 0;
  ir::WalkStmts(s, [&](const Stmt& inner) {
    const auto* alloc = inner.as<ir::AllocNode>();
    if (alloc == nullptr || !alloc->buffer.IsTmem()) return true;
    if (alloc->buffer->attrs.count(ir::kViewOf) != 0) return true;
    Coord shape = StaticShape(alloc->buffer);
    int64_t rows = layout::Product(shape) / shape.back();
    int64_t blocks = (rows + layout::kTmemLanes - 1) / layout::kTmemLanes;
    columns += blocks * shape.back() * alloc->buffer->dtype.bits / layout::kTmemColumnBits;
    return true;
  });
  return columns;
}

Array<int64_t> TmemBox(int64_t argument, int64_t lanes, int64_t columns, bool writes,
                       const Buffer& buffer, const Context& ctx) {
  int64_t first = ctx.tmem->columns[buffer];
  int64_t end = first + ColumnsOf(buffer, *ctx.layouts->GetTmem(buffer));
  return {argument, lanes, columns, writes, first, end};
}

bool ShareColumns(const Buffer& a, const Buffer& b, const LayoutMap& layouts,
                  const TensorMemory& memory) {
  int64_t a_begin = memory.columns[a];
  int64_t b_begin = memory.columns[b];
  return a_begin < b_begin + ColumnsOf(b, *layouts.GetTmem(b)) &&
         b_begin < a_begin + ColumnsOf(a, *layouts.GetTmem(a));
}

namespace {

// Returns how much one step along `dim` adds to the bit offset, if every step adds the same and
// stays in its lane.
std::optional<int64_t> BitStride(const TmemLayout& layout, size_t dim) {
  Coord coord(layout->Extents().size(), 0);
  int64_t extent = layout->Extents()[dim];
  int64_t lane = layout->lane->Forward(coord);
  int64_t origin = layout->bit->Forward(coord);
  if (extent == 1) return 0;
  coord[dim] = 1;
  int64_t stride = layout->bit->Forward(coord) - origin;
  for (int64_t i = 0; i < extent; ++i) {
    coord[dim] = i;
    if (layout->lane->Forward(coord) != lane) return std::nullopt;
    if (layout->bit->Forward(coord) != origin + i * stride) return std::nullopt;
  }
  return stride;
}

// Returns the columns that a variable index adds.
Expr VariableColumns(const Region& region, const TmemLayout& layout, size_t dim, const Span& span,
                     Context* ctx) {
  const Expr& index = region->mins[dim];
  auto stride = BitStride(layout, dim);
  Expr bits = stride ? index * ir::Const(index.dtype(), *stride) : Expr();
  if (!stride || !ctx->analyzer->Divides(bits, layout::kTmemColumnBits)) {
    TL_USER_ERROR(
        kShape, span,
        "region " << ir::Print(region) << " of tensor memory begins at index " << ir::Print(index)
                  << " of dimension " << dim
                  << ", known only at run time; only whole 32-bit columns and stages "
                     "can be chosen at run time, rows cannot. Loop with T.unroll "
                     "between constants, without break, continue and allocations, or write a "
                     "statement with a constant index for each");
  }
  return ir::FloorDiv(bits, ir::Const(bits.dtype(), layout::kTmemColumnBits));
}

}  // namespace

TmemTile TileOf(const Region& region, const Span& span, Context* ctx) {
  const Buffer& buffer = region->buffer;
  TmemLayout layout = *ctx->layouts->GetTmem(buffer);
  Coord begin;
  Coord extents = StaticExtents(region->extents, "the extents of a region of tensor memory", span);
  Expr column = ir::Const(ir::dtypes::kUInt32, 0);
  if (ctx->tmem != nullptr) {
    column = ctx->tmem->base + ir::Const(ir::dtypes::kUInt32, ctx->tmem->columns[buffer]);
  }
  Coord moving;
  for (size_t d = 0; d < region->mins.size(); ++d) {
    auto min = ir::AsInt(region->mins[d]);
    begin.push_back(min.value_or(0));
    if (!min) {
      Expr extra = VariableColumns(region, layout, d, span, ctx);
      column = column + ir::CastTo(ir::dtypes::kUInt32, extra);
    }
    if (extents[d] != 1) moving.push_back(extents[d]);
  }
  return {layout.Slice(begin, extents).Reshape(moving), ctx->analyzer->Simplify(column)};
}

}  // namespace tilelang::op
