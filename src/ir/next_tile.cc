#include "ir/next_tile.h"

#include "ir/intrinsics.h"

namespace tilelang::ir {

namespace {

// Returns the buffer of the element that an argument names, by its address if the call writes
// there. Returns null if the argument names none.
Buffer BufferOf(const Expr& arg) {
  const auto* address = arg.as<CallNode>();
  const auto* load = (address == nullptr ? arg : address->args[0]).as<LoadNode>();
  return load == nullptr ? Buffer() : load->buffer;
}

}  // namespace

Buffer ListedTable(const CallNode* call) {
  bool reads_list = call->intrinsic != nullptr && call->intrinsic->name == kListedTile;
  return reads_list ? BufferOf(call->args[0]) : Buffer();
}

std::optional<NextTile> AsNextTile(const Stmt& s) {
  const auto* bind = s.as<BindNode>();
  const auto* call = bind == nullptr ? nullptr : bind->value.as<CallNode>();
  if (call == nullptr || !call->Is(Builtin::kNextTile)) return std::nullopt;
  const auto& args = call->args;
  return NextTile{*AsInt(args[0]), args[1],           args[2],          args[3],
                  args[4],         BufferOf(args[5]), BufferOf(args[6])};
}

}  // namespace tilelang::ir
