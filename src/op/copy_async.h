// Copies by cp.async: each thread asks for its elements of a tile, and waits for them by groups.
#ifndef TILELANG_OP_COPY_ASYNC_H_
#define TILELANG_OP_COPY_ASYNC_H_

#include <optional>

#include "op/context.h"

namespace tilelang::op {

// An annotation of parallel loops that copy a tile from global to shared memory: the stores of
// threads become copies by cp.async, which somebody waits for. Its value is whether barriers that
// stand in the program already order them with other accesses of the tile.
inline constexpr const char* kCopyAsync = "cp_async";
bool IsCopyAsync(const ir::ParallelForNode* loop);

// The loop copies a tile: its one statement stores an element of global memory, of the same type,
// as each element of a buffer in shared memory; or zero, where a condition does not hold.
struct TileCopy {
  Buffer tile;
  Buffer source;
  Array<Expr> chosen_by;  // these decide which elements: indices of the source, conditions
};
std::optional<TileCopy> AsTileCopy(const Stmt& s);
// The element that such a loop stores, if a condition holds; null for other values.
const ir::LoadNode* CopiedLoad(const Expr& value);

// The copy for a lowered store of `elements` that follow each other, of a loop so annotated; null
// where cp.async cannot carry it out: it takes 4, 8 or 16 bytes, or writes zeros.
Stmt CopyAsync(const Stmt& store, int64_t elements, bool ordered);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_ASYNC_H_
