#include "ir/named_values.h"

#include "ir/visitor.h"

namespace tilelang::ir {

Stmt WithoutNames(const Stmt& s) {
  const auto* seq = s.as<SeqNode>();
  if (seq == nullptr || seq->stmts.empty()) return s;
  Map<Var, Expr> values;
  for (size_t i = 0; i + 1 < seq->stmts.size(); ++i) {
    const auto* bind = seq->stmts[i].as<BindNode>();
    if (bind == nullptr) return s;
    values.Set(bind->var, Substitute(bind->value, values));
  }
  return Substitute(seq->stmts.back(), values);
}

}  // namespace tilelang::ir
