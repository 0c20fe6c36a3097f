#include "op/reduce_values.h"

#include <limits>
#include <string>

namespace tilelang::op {

using ir::DType;
using ir::Expr;

Expr Reduction::Identity() const {
  if (name == "bitand") return ir::Const(type, int64_t{-1});
  if (name == "prod" || name == "all") return ir::Const(type, int64_t{1});
  if (name != "max" && name != "min") return ir::Const(type, int64_t{0});
  bool is_max = name == "max";
  double sign = is_max ? -1 : 1;
  if (ir::IsFloat(type) && !ir::IsFloat8(type)) {
    return ir::FloatImm(type, sign * std::numeric_limits<double>::infinity());
  }
  if (type == ir::dtypes::kFloat8E5M2) return ir::FloatImm(type, sign * 57344.0);
  if (type == ir::dtypes::kFloat8E4M3) return ir::FloatImm(type, sign * 448.0);
  if (ir::IsUInt(type) || ir::IsBool(type)) return ir::Const(type, is_max ? int64_t{0} : -1);
  int64_t most =
      type.bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (type.bits - 1)) - 1;
  return ir::Const(type, is_max ? -most - 1 : most);
}

Expr Reduction::Combine(const Expr& a, const Expr& b) const {
  if (name == "sum" || name == "abssum") return a + b;
  if (name == "prod") return a * b;
  if (name == "bitand") return ir::MakeBinary(ir::BinaryOp::kBitAnd, a, b);
  if (name == "bitor") return ir::MakeBinary(ir::BinaryOp::kBitOr, a, b);
  if (name == "bitxor") return ir::MakeBinary(ir::BinaryOp::kBitXor, a, b);
  bool is_max = name == "max" || name == "absmax" || name == "any";
  if (nan_propagate && ir::IsFloat(a.dtype())) {
    return ir::Call(a.dtype(), is_max ? "max_nan" : "min_nan", {a, b});
  }
  return is_max ? ir::Max(a, b) : ir::Min(a, b);
}

ir::Stmt Reduction::Take(const std::vector<Expr>& fields, const std::vector<Expr>& incoming,
                         const std::function<ir::Stmt(size_t k, const Expr& value)>& store,
                         const ir::Span& span) const {
  if (record.defined()) return record.Apply(fields, incoming, store, span);
  return store(0, Combine(fields[0], incoming[0]));
}

Expr Reduction::Prepared(const Expr& value) const {
  if (name == "any" || name == "all") {
    const Expr x = ir::CastTo(RunningType(value.dtype()), value);
    return ir::CastTo(type, ir::MakeBinary(ir::BinaryOp::kNe, x, ir::Const(x.dtype(), int64_t{0})));
  }
  Expr x = ir::CastTo(type, value);
  bool absolute = name == "abssum" || name == "absmax";
  return absolute && !ir::IsUInt(type) ? ir::Call(type, "abs", {x}) : x;
}

ir::String Reduction::OfPrepared() const {
  if (name == "absmax" || name == "any") return "max";
  if (name == "all") return "min";
  return name == "abssum" ? ir::String("sum") : name;
}

DType RunningType(DType t) { return ir::IsFloat(t) && t.bits < 32 ? ir::dtypes::kFloat32 : t; }

Reduction ReductionOf(const ir::ReduceNode* op) {
  return {op->op, RunningType(op->dst->buffer->dtype), op->nan_propagate};
}

}  // namespace tilelang::op
