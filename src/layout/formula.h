/*! The index functions of users, as expressions of the IR. */
#ifndef TILELANG_LAYOUT_FORMULA_H_
#define TILELANG_LAYOUT_FORMULA_H_

#include <tvm/ffi/container/array.h>

#include <string>
#include <vector>

#include "ir/expr.h"
#include "layout/int_tuple.h"

namespace tilelang::layout {

/*! The row-major linear index of a coordinate of the shape `extents`. */
ir::Expr LinearIndexExpr(const std::vector<int64_t>& extents, const std::vector<ir::Expr>& coord);
/*! The coordinate at a row-major linear index. */
std::vector<ir::Expr> DelinearizedExprs(const std::vector<int64_t>& extents, const ir::Expr& index);

/*! A layout's value as an int32 expression of int32 variables, one a dimension. */
class FormulaNode : public ffi::Object {
 public:
  ffi::Array<ir::Var> coordinates;
  ir::Expr value;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.layout.Formula", FormulaNode, ffi::Object);

  /*! The value at coordinates of one integer type, in that type. */
  ir::Expr At(const std::vector<ir::Expr>& coord) const;
  /*! Prints as `(i0, i1) -> i0 * 64 + (i1 + i0) % 64`. */
  std::string ToString() const;
};

class Formula : public ffi::ObjectRef {
 public:
  Formula(ffi::Array<ir::Var> coordinates, ir::Expr value);

  /*! A formula of `rank` coordinates: `value(coordinates)`. */
  template <typename Value>
  static Formula Of(size_t rank, Value value) {
    ffi::Array<ir::Var> coordinates = Coordinates(rank);
    return Formula(coordinates,
                   value(std::vector<ir::Expr>(coordinates.begin(), coordinates.end())));
  }

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Formula, ffi::ObjectRef, FormulaNode);

 private:
  static ffi::Array<ir::Var> Coordinates(size_t rank);
};

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_FORMULA_H_
