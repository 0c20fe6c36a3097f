// Defines the operations of a reduction on single values.
#ifndef TILELANG_OP_REDUCE_VALUES_H_
#define TILELANG_OP_REDUCE_VALUES_H_

#include <functional>
#include <vector>

#include "ir/record.h"
#include "ir/tile_op.h"

namespace tilelang::op {

// A reduction `name` ("sum", "max", ..., see ReduceNode::op) of values of type `type`, or of
// records. Plain values are records of one field.
struct Reduction {
  ir::String name;
  ir::DType type;  // of the running value; of records, of the first field
  bool nan_propagate = false;
  ir::RecordUpdate record = ir::RecordUpdate();  // null for plain values

  size_t Fields() const { return record.defined() ? record->left.size() : 1; }
  ir::DType Type(size_t k) const { return record.defined() ? record->left[k].dtype() : type; }
  ir::Expr Identity(size_t k) const { return record.defined() ? record->identity[k] : Identity(); }
  // The statement that takes what was prepared, `incoming`, into `fields`: see RecordUpdate::Apply.
  ir::Stmt Take(const std::vector<ir::Expr>& fields, const std::vector<ir::Expr>& incoming,
                const std::function<ir::Stmt(size_t k, const ir::Expr& value)>& store,
                const ir::Span& span) const;

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
