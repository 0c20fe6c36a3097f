// Records: several values that a reduction carries together, as an index beside its maximum.
#ifndef TILELANG_IR_RECORD_H_
#define TILELANG_IR_RECORD_H_

#include <functional>
#include <vector>

#include "ir/stmt.h"

namespace tilelang::ir {

// Says how a record takes in another record, or an element: `combined` has the fields afterwards,
// computed from the fields `left` before and the fields `right` that come. Two records of one kind
// combine in any order.
class RecordUpdateNode : public ffi::Object {
 public:
  String name;  // of the record: "argmax"
  Array<Var> left;
  Array<Var> right;
  Array<Expr> combined;
  // Fields that change nothing when they are combined with others; constants.
  Array<Expr> identity;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.ir.RecordUpdate", RecordUpdateNode, ffi::Object);
};
class RecordUpdate : public ffi::ObjectRef {
 public:
  RecordUpdate(String name, Array<Var> left, Array<Var> right, Array<Expr> combined,
               Array<Expr> identity);
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(RecordUpdate, ffi::ObjectRef, RecordUpdateNode);

  // The statements that compute the fields from `fields` and `incoming`, and store them: `store`
  // gives the statement that stores field k. Values used several times are computed once.
  Stmt Apply(const std::vector<Expr>& fields, const std::vector<Expr>& incoming,
             const std::function<Stmt(size_t k, const Expr& value)>& store, const Span& span) const;
};

}  // namespace tilelang::ir

#endif  // TILELANG_IR_RECORD_H_
