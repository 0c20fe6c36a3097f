// Evaluating index expressions on integers, for layouts computed by tabulation.
#ifndef TILELANG_OP_INDEX_EVAL_H_
#define TILELANG_OP_INDEX_EVAL_H_

#include <functional>
#include <optional>
#include <vector>

#include "ir/expr.h"

namespace tilelang::op {

// An integer function of some variables: affine where the expression is, else interpreted.
// Other variables take the value that `other` gives them.
class IndexFunction {
 public:
  using Lookup = std::function<std::optional<int64_t>(const ir::Var&)>;
  IndexFunction(const ir::Expr& e, const ir::Array<ir::Var>& vars, const Lookup& other);

  // False when a leaf is neither a variable with a value nor a constant (a memory load, say).
  bool ok() const { return ok_; }
  int64_t operator()(const std::vector<int64_t>& values) const;

 private:
  struct Node {
    enum Kind { kConst, kVar, kBinary, kSelect } kind;
    ir::BinaryOp op = ir::BinaryOp::kAdd;
    int64_t value = 0;  // constant, or index of the variable
    int a = -1;
    int b = -1;
    int c = -1;
  };
  int Build(const ir::Expr& e, const ir::Array<ir::Var>& vars, const Lookup& other);
  int Emit(Node node);
  int64_t Eval(int node, const std::vector<int64_t>& values) const;
  void FindAffineForm(size_t num_vars);

  std::vector<Node> nodes_;
  int root_ = -1;
  bool ok_ = true;
  bool affine_ = false;
  int64_t constant_ = 0;
  std::vector<int64_t> coefficients_;
};

// `e` = var + rest with `rest` free of all `vars`: returns the position of var and rest.
struct VarPlusRest {
  int var;
  ir::Expr rest;
};
std::optional<VarPlusRest> MatchVarPlusRest(const ir::Expr& e, const ir::Array<ir::Var>& vars);
bool UsesAny(const ir::Expr& e, const ir::Array<ir::Var>& vars);

}  // namespace tilelang::op

#endif  // TILELANG_OP_INDEX_EVAL_H_
