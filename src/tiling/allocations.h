// Buffers that a function or a launch allocates for what a pass adds.
#ifndef TILELANG_TILING_ALLOCATIONS_H_
#define TILELANG_TILING_ALLOCATIONS_H_

#include <vector>

#include "ir/stmt.h"

namespace tilelang::tiling {

// Returns the body of a function or a launch that allocates these buffers first: memory of the
// call, or of a block.
ir::Stmt WithAllocations(const std::vector<ir::Buffer>& buffers, const ir::Stmt& body);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ALLOCATIONS_H_
