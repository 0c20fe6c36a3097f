#include "op/effect.h"

namespace tilelang::op {

ir::Stmt Effect(const std::string& name, ir::Array<ir::Expr> args, const ir::Span& span,
                ir::Map<ir::String, ir::Any> attrs) {
  return ir::Evaluate(ir::Call(ir::dtypes::kVoid, name, std::move(args), std::move(attrs), span),
                      span);
}

ir::Stmt DeviceEffect(const char* header, const std::string& function, ir::Array<ir::Expr> args,
                      const ir::Span& span, ir::Map<ir::String, ir::Any> attrs) {
  attrs.Set("header", ir::String(header));
  return Effect("tl::" + function, std::move(args), span, std::move(attrs));
}

const ir::CallNode* CallOf(const ir::Stmt& s) {
  const auto* evaluate = s.as<ir::EvaluateNode>();
  return evaluate == nullptr ? nullptr : evaluate->value.as<ir::CallNode>();
}

ir::Stmt Sequence(const std::vector<ir::Stmt>& stmts, const ir::Span& span) {
  return ir::Seq(ir::Array<ir::Stmt>(stmts.begin(), stmts.end()), span);
}

}  // namespace tilelang::op
