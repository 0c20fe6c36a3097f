// Lists of tiles in global memory, for T.Persistent(table=).
#pragma once

namespace tl {

// Returns the entry at `place`, or -1 when an entry of [from, place] is no number below `tiles`:
// the list ends there. The lanes that execute the call together share the entries.
TL_DEVICE int listed_tile(const int* table, int from, int place, int tiles) {
  const unsigned lanes = __activemask();
  unsigned before;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
  const int step = __popc(lanes);
  const int tile = table[place];
  bool ends = unsigned(tile) >= unsigned(tiles);
#pragma unroll 8
  for (int i = from + __popc(lanes & before); i < place; i += step) {
    ends |= unsigned(table[i]) >= unsigned(tiles);
  }
  return __any_sync(lanes, ends) ? -1 : tile;
}

}  // namespace tl
