// Names of memories, as errors and remarks use them.
#ifndef TILELANG_IR_MEMORY_NAME_H_
#define TILELANG_IR_MEMORY_NAME_H_

#include <string>

#include "ir/expr.h"

namespace tilelang::ir {

// Returns the memory of a buffer in words, such as "shared memory".
inline std::string MemoryName(const Buffer& buffer) {
  if (buffer.IsGlobal()) return "global memory";
  if (buffer.IsTmem()) return "tensor memory";
  if (buffer.IsShared() || buffer.IsBarrier()) return "shared memory";
  if (buffer.IsFragment()) return "a fragment";
  return buffer->scope == "local.var" ? "a variable" : "a local array";
}

}  // namespace tilelang::ir

#endif  // TILELANG_IR_MEMORY_NAME_H_
