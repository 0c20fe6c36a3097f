// Places the elements of a tile while prefixes of its rows are computed.
#ifndef TILELANG_OP_SCAN_LAYOUT_H_
#define TILELANG_OP_SCAN_LAYOUT_H_

#include <vector>

#include "op/context.h"

namespace tilelang::op {

// A row lies, from its first element on, in the registers of a thread, `vector` of them; in the
// lanes of a warp; in further registers, `turns` times; and in the warps. So each warp has a part
// of the row without gaps, and what memory sees of it is contiguous too.
struct ScanLayout {
  Fragment fragment;
  int64_t vector;
  int64_t lanes;        // of a warp, along a row
  int64_t lane_stride;  // between the threads of neighbours
  int64_t turns;
  int64_t warps;        // along a row; more than one only where `lanes` reach through a warp
  int64_t vector_step;  // between registers
  int64_t turn_step;
  std::vector<int64_t> rows;  // the first register of each row that a thread has a part of
  int64_t threads;            // a power of two; further threads have no element
};

// `bits`: of an element in memory, for accesses of 16 bytes.
ScanLayout ScanLayoutOf(const Coord& extents, int64_t dim, int64_t bits,
                        const ThreadRange& threads);

}  // namespace tilelang::op

#endif  // TILELANG_OP_SCAN_LAYOUT_H_
