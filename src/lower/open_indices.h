// Shared tiles with indices that may lie outside of them.
#ifndef TILELANG_LOWER_OPEN_INDICES_H_
#define TILELANG_LOWER_OPEN_INDICES_H_

#include <vector>

#include "ir/function.h"

namespace tilelang::lower {

// An attribute (true) of shared tiles in thread IR: an index of the program may lie outside of the
// tile, so that code generation writes a check for the emulator (codegen/tile_index.cc).
inline constexpr const char* kOpenIndices = "open_indices";

// Returns the shared tiles of a launch, in tile IR, of which an index or a region is not proven to
// lie inside: it depends on data, on an argument, or on the thread. Tiles that only tile operators
// touch, by regions of constant places, are never among them.
std::vector<ir::Buffer> TilesWithOpenIndices(const ir::Func& func,
                                             const ir::KernelLaunchNode* launch);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_OPEN_INDICES_H_
