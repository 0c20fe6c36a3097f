// Workspaces in whose place some calls have a tensor that was passed.
#ifndef TILELANG_IR_STAND_IN_H_
#define TILELANG_IR_STAND_IN_H_

#include <tvm/ffi/cast.h>

#include <optional>

#include "ir/expr.h"

namespace tilelang::ir {

// Attributes of global buffers that a function allocates. In calls in which the condition (an Expr
// of the host) holds, the buffer is the parameter (a Buffer) and gets no memory of its own. It then
// has the extents and strides of the parameter, and nothing writes it.
inline constexpr const char* kStandIn = "stand_in";
inline constexpr const char* kStandsInWhere = "stands_in_where";

struct StandIn {
  Buffer tensor;
  Expr where;
};

// None for a buffer that always has memory of its own.
inline std::optional<StandIn> StandInOf(const Buffer& buffer) {
  auto tensor = buffer->attrs.Get(kStandIn);
  if (!tensor) return std::nullopt;
  return StandIn{(*tensor).cast<Buffer>(), buffer->attrs.at(kStandsInWhere).cast<Expr>()};
}

}  // namespace tilelang::ir

#endif  // TILELANG_IR_STAND_IN_H_
