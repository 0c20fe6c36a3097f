#ifndef TILELANG_EPILOGUE_EPILOGUE_STORES_H_
#define TILELANG_EPILOGUE_EPILOGUE_STORES_H_

#include <functional>

#include "epilogue/epilogue_region.h"

namespace tilelang::epilogue {

// Sends results that a region copies from registers straight to a tensor through shared memory:
// T.copy(c, D[...]) becomes a copy to a tile that slices take slots of, and one from it, which the
// tensor memory accelerator does, or, where rows are not aligned, threads along rows. Threads would
// store a few bytes of many rows each. Asks `fits` of each copy between such a tile and its tensor.
using StagedCopy = std::function<bool(const ir::CopyNode* copy, const ir::Buffer& tile)>;
void StageStores(EpilogueRegion* region, const StagedCopy& fits);
// Makes copies to such tiles of the loops that load elements of a tensor ahead, as well.
void StageLoads(EpilogueRegion* region, const StagedCopy& fits);

int64_t BytesOfTile(const ir::Buffer& tile);
// Bytes of the shared memory that slices take with so many slots, less what tiles take whole.
int64_t BytesOfSlots(const EpilogueRegion& region, int64_t slots);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_EPILOGUE_STORES_H_
