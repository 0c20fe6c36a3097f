/*!
 * Shared-memory layouts: swizzled as TMA and tcgen05.mma / wgmma want them, padded, and what an
 * access costs in bank conflicts.
 */
#ifndef TILELANG_LAYOUT_SMEM_LAYOUT_H_
#define TILELANG_LAYOUT_SMEM_LAYOUT_H_

#include <optional>
#include <vector>

#include "layout/fragment.h"
#include "layout/layout.h"

namespace tilelang::layout {

/*! The unit that most swizzles move. */
inline constexpr int64_t kChunkBytes = 16;

/*!
 * \brief Returns a tile in atom columns that are `swizzle_bytes` wide: side by side, each with all
 * rows, and without a swizzle. Raises LayoutError where SwizzledLayout does.
 */
Layout AtomColumns(const Coord& extents, int64_t element_bits, int64_t swizzle_bytes);

/*!
 * A tile in shared memory, element coordinates to element indices, in atoms of 8 rows x
 * `swizzle_bytes` (16, 32, 64 or 128; 16 is the unswizzled core-matrix form). The last dimension
 * is the contiguous one: K for K-major operands, M or N for MN-major ones; the storage is the
 * same. A tile wider than the atom is split into atom columns: [width / atom][rows][atom]. This
 * is what TMA writes for boxes of that inner extent, with 16-byte chunk c of row r at c ^ (r % 8)
 * for 128 bytes, c ^ (r / 2 % 4) for 64, c ^ (r / 4 % 2) for 32. Leading dimensions are slowest.
 *
 * With `atomicity_bytes` = 32, for 128 bytes only, chunks of 32 bytes move: c of row r to
 * c ^ (r % 4). MN-major operands of 32-bit elements are stored so.
 *
 * Holds when the tile begins at a multiple of 8 * swizzle_bytes. Raises LayoutError when the
 * width is no multiple of the atom, or a tile of several atom columns has rows not in eights.
 */
Layout SwizzledLayout(const Coord& extents, int64_t element_bits, int64_t swizzle_bytes,
                      int64_t atomicity_bytes = kChunkBytes);

/*! Returns the widths of 128, 64, 32, 16 that SwizzledLayout takes for the tile, widest first. */
std::vector<int64_t> SwizzleWidths(const Coord& extents, int64_t element_bits);

/*! The widest of them; 0 if there is none. */
int64_t WidestSwizzle(const Coord& extents, int64_t element_bits);

/*!
 * The layout in which tcgen05.mma reads a tile whose last dimension is contiguous: K if `k_major`,
 * else M or N. The widest swizzle; for MN-major elements of 32 bits the one of 32-byte chunks,
 * which is the only one they have (PTX ISA, "tcgen05.mma matrix descriptor"), rows that are no
 * multiple of its 128 bytes padded. Nothing if the rows do not fit: see WidestSwizzle.
 */
std::optional<Layout> OperandLayout(const Coord& extents, int64_t element_bits, bool k_major);

/*!
 * Whether aligned runs of `elements` along the last dimension stay together and aligned, as
 * instructions want that move them as one.
 */
bool KeepsRuns(const Layout& smem, int64_t elements);

/*! Row-major with `pad` further elements at the end of each row. */
Layout PaddedLayout(const Coord& extents, int64_t pad);

/*!
 * Shared-memory cycles of one warp instruction: the words of 32 banks x 4 bytes that the threads'
 * byte addresses touch, `bytes` (1..16) at each; negative addresses are inactive threads. Accesses
 * of 8 bytes are served by half-warps, of 16 by quarter-warps; equal words are broadcast.
 */
int64_t BankCycles(const std::vector<int64_t>& addresses, int64_t bytes);

/*! Cycles of moving a whole fragment to or from shared memory, and the least possible. */
struct SharedCost {
  int64_t cycles = 0;
  int64_t ideal = 0;
};

/*!
 * Cost of accessing `smem` from `fragment` (same extents) with vectors of `vector` elements along
 * the last dimension; each vector must lie in consecutive registers and addresses.
 */
SharedCost SharedAccessCost(const Layout& smem, const Fragment& fragment, int64_t element_bits,
                            int64_t vector);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_SMEM_LAYOUT_H_
