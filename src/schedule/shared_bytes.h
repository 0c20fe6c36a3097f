// Bytes of shared memory that a launch asks for, before its loops are pipelined.
#ifndef TILELANG_SCHEDULE_SHARED_BYTES_H_
#define TILELANG_SCHEDULE_SHARED_BYTES_H_

#include <vector>

#include "ir/stmt.h"

namespace tilelang::schedule {

// Bytes of shared memory of a block besides its tiles: barriers, scratch, alignment, the driver's.
inline constexpr int64_t kBytesBesideTiles = 4096;

// Bytes of the elements of a tile; an extent that is not constant counts as 1.
int64_t TileBytes(const ir::Buffer& buffer);

// Returns the shared tiles that copies of a statement load from tensors.
std::vector<ir::Buffer> LoadedTiles(const ir::Stmt& s);

// Bytes of the shared tiles of a launch; a tile that a pipelined loop loads counts for each stage.
int64_t SharedBytes(const ir::KernelLaunchNode* launch);

// Returns whether a pipelined loop loads shared tiles ahead, that is, it has at least two stages.
bool LoadsAhead(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_SHARED_BYTES_H_
