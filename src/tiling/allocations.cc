#include "tiling/allocations.h"

#include "op/effect.h"

namespace tilelang::tiling {

using ir::Stmt;

Stmt WithAllocations(const std::vector<ir::Buffer>& buffers, const Stmt& body) {
  std::vector<Stmt> stmts;
  for (const ir::Buffer& buffer : buffers) stmts.push_back(ir::Alloc(buffer, buffer->span));
  if (const auto* seq = body.as<ir::SeqNode>()) {
    stmts.insert(stmts.end(), seq->stmts.begin(), seq->stmts.end());
  } else {
    stmts.push_back(body);
  }
  return op::Sequence(stmts, body.span());
}

}  // namespace tilelang::tiling
