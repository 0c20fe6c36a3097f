#include "lower/named_elements.h"

#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/structural_equal.h>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/printer.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Expr;

NamedElements::NamedElements(const ir::Func& func) {
  std::unordered_set<const ffi::Object*> written;
  ir::WalkEffects(func->body, [&](const ir::Effect& effect) {
    if (effect.Writes()) written.insert(ir::MemoryOf(effect.buffer));
  });
  for (const ir::Any& param : func->params) {
    auto tensor = param.as<ir::Buffer>();
    if (tensor && written.count(ir::MemoryOf(*tensor)) == 0) read_only_.insert((*tensor).get());
  }
}

Expr NamedElements::Rewrite(const ir::LoadNode* op) {
  if (read_only_.count(op->buffer.get()) == 0) return StmtMutator::Rewrite(op);
  Expr load = ffi::GetRef<Expr>(op);
  for (const auto& [known, name] : names_) {
    if (ffi::StructuralEqual::Equal(known, load)) return name;
  }
  names_.emplace_back(load, ir::Var(ir::Print(load), load.dtype()));
  return names_.back().second;
}

}  // namespace tilelang::lower
