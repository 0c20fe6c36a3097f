#include "ir/unaligned_vectors.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "ir/same.h"

namespace tilelang::ir {

namespace {

constexpr const char* kUnaligned = "unaligned";

}  // namespace

For WithUnaligned(const For& loop, const Array<Buffer>& buffers) {
  if (buffers.empty()) return loop;
  Map<String, Any> annotations = loop->annotations;
  annotations.Set(kUnaligned, buffers);
  return For(loop->var, loop->min, loop->extent, loop->Kind(), loop->body, annotations, loop->span);
}

bool IsUnaligned(const ForNode* loop, const Buffer& buffer) {
  auto found = loop->annotations.Get(kUnaligned);
  if (!found) return false;
  auto buffers = (*found).cast<Array<Buffer>>();
  return ir::HasSame(buffers, buffer);
}

}  // namespace tilelang::ir
