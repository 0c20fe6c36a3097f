// What a reduction does with single values.
#ifndef TILELANG_OP_REDUCE_VALUES_H_
#define TILELANG_OP_REDUCE_VALUES_H_

#include "ir/tile_op.h"

namespace tilelang::op {

// A reduction `name` ("sum", "max", ..., see ReduceNode::op) of values of type `type`.
struct Reduction {
  ir::String name;
  ir::DType type;  // of the running value
  bool nan_propagate = false;

  // The value that leaves any other unchanged.
  ir::Expr Identity() const;
  ir::Expr Combine(const ir::Expr& a, const ir::Expr& b) const;
  // An element as it takes part.
  ir::Expr Prepared(const ir::Expr& value) const;
  // The reduction of values that took part already: "max" for "absmax".
  ir::String OfPrepared() const;
};

// The type of the running value of results of type `t`: 16-bit and 8-bit floats add up in float32.
ir::DType RunningType(ir::DType t);
Reduction ReductionOf(const ir::ReduceNode* op);

}  // namespace tilelang::op

#endif  // TILELANG_OP_REDUCE_VALUES_H_
