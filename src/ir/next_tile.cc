#include "ir/next_tile.h"

namespace tilelang::ir {

namespace {

// Whose address an argument is; null: of none.
Buffer Addressed(const Expr& arg) {
  const auto* address = arg.as<CallNode>();
  return address == nullptr ? Buffer() : address->args[0].as<LoadNode>()->buffer;
}

}  // namespace

std::optional<NextTile> AsNextTile(const Stmt& s) {
  const auto* bind = s.as<BindNode>();
  const auto* call = bind == nullptr ? nullptr : bind->value.as<CallNode>();
  if (call == nullptr || call->name != kNextTile) return std::nullopt;
  const auto& args = call->args;
  return NextTile{*AsInt(args[0]),    args[1],           args[2], args[3], args[4],
                  Addressed(args[5]), Addressed(args[6])};
}

}  // namespace tilelang::ir
