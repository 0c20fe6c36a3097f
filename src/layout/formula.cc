#include "layout/formula.h"

#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::layout {

using ir::Expr;

Expr LinearIndexExpr(const std::vector<int64_t>& extents, const std::vector<Expr>& coord) {
  Expr index = coord[0];
  for (size_t d = 1; d < coord.size(); ++d) {
    if (extents[d] != 1) index = index * ir::Const(index.dtype(), extents[d]);
    index = ir::IsConst(index, 0) ? coord[d] : index + coord[d];
  }
  return index;
}

std::vector<Expr> DelinearizedExprs(const std::vector<int64_t>& extents, const Expr& index) {
  std::vector<Expr> coord(extents.size());
  int64_t radix = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    coord[d] = radix == 1 ? index : ir::FloorDiv(index, ir::Const(index.dtype(), radix));
    if (d > 0) coord[d] = ir::FloorMod(coord[d], ir::Const(index.dtype(), extents[d]));
    radix *= extents[d];
  }
  return coord;
}

Formula::Formula(ffi::Array<ir::Var> coordinates, Expr value) {
  auto node = ffi::make_object<FormulaNode>();
  node->coordinates = std::move(coordinates);
  node->value = std::move(value);
  data_ = std::move(node);
}

ffi::Array<ir::Var> Formula::Coordinates(size_t rank) {
  ffi::Array<ir::Var> coordinates;
  for (size_t d = 0; d < rank; ++d) {
    coordinates.push_back(ir::Var("i" + std::to_string(d), ir::dtypes::kInt32));
  }
  return coordinates;
}

Expr FormulaNode::At(const std::vector<Expr>& coord) const {
  ffi::Map<ir::Var, Expr> replacement;
  for (size_t d = 0; d < coord.size(); ++d) {
    replacement.Set(coordinates[d], ir::CastTo(ir::dtypes::kInt32, coord[d]));
  }
  return ir::CastTo(coord[0].dtype(), ir::Substitute(value, replacement));
}

std::string FormulaNode::ToString() const {
  std::string text;
  for (const ir::Var& coordinate : coordinates) {
    text += (text.empty() ? "(" : ", ") + std::string(coordinate->name);
  }
  return text + ") -> " + ir::Print(value);
}

}  // namespace tilelang::layout
