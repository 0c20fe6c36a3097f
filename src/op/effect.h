// Statements made for their effect: calls of intrinsics and of device functions.
#ifndef TILELANG_OP_EFFECT_H_
#define TILELANG_OP_EFFECT_H_

#include <string>

#include "ir/stmt.h"

namespace tilelang::op {

// An intrinsic of ir/intrinsics.h.
ir::Stmt Effect(const std::string& name, ir::Array<ir::Expr> args, const ir::Span& span,
                ir::Map<ir::String, ir::Any> attrs = {});
// tl::<function> of a header in src/tl_templates/cuda.
ir::Stmt DeviceEffect(const char* header, const std::string& function, ir::Array<ir::Expr> args,
                      const ir::Span& span, ir::Map<ir::String, ir::Any> attrs = {});

// The call that a statement makes for its effect; null: it is no such statement.
const ir::CallNode* CallOf(const ir::Stmt& s);

inline ir::Expr I32(int64_t value) { return ir::Const(ir::dtypes::kInt32, value); }
inline ir::Expr U32(int64_t value) { return ir::Const(ir::dtypes::kUInt32, value); }
inline ir::Expr U64(uint64_t value) {
  return ir::Const(ir::dtypes::kUInt64, static_cast<int64_t>(value));
}

ir::Stmt Sequence(const std::vector<ir::Stmt>& stmts, const ir::Span& span);

}  // namespace tilelang::op

#endif  // TILELANG_OP_EFFECT_H_
