/*!
 * The matrix instructions of one warp (mma.sync) and of four (wgmma): their shapes, and the
 * fragments that they make of tiles.
 */
#ifndef TILELANG_LAYOUT_MMA_LAYOUT_H_
#define TILELANG_LAYOUT_MMA_LAYOUT_H_

#include "layout/fragment.h"

namespace tilelang::layout {

/*!
 * One shape. A thread with g = lane / 4 and c = lane % 4 holds rows g and, if `row_halves` is 2,
 * g + 8 of A and C; columns 2c and 2c + 1 of C; elements c * packed .. + packed - 1 of K and, if
 * `k_halves` is 2, the elements 4 * packed further; column g of B (PTX ISA, "Matrix Fragments for
 * mma.m16n8k16" and the other shapes).
 */
struct MmaAtom {
  int64_t row_halves;
  int64_t k_halves;
  int64_t packed;  // elements of an operand in one register

  int64_t M() const { return 8 * row_halves; }
  int64_t N() const { return 8; }
  int64_t K() const { return 4 * packed * k_halves; }
  /*! Elements that a thread holds. */
  int64_t SizeA() const { return packed * row_halves * k_halves; }
  int64_t SizeB() const { return packed * k_halves; }
  int64_t SizeC() const { return 2 * row_halves; }
};

/*!
 * How warps share C: group g of `group` warps computes tile (g % m, g / m) of m x n equal ones, in
 * which its warps take turns at the rows, an atom each. A warp alone executes mma.sync, a group of
 * four wgmma (PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma).
 */
struct WarpGrid {
  int64_t m = 1;
  int64_t n = 1;
  int64_t group = 1;
};

/*!
 * The fragment of a tile C (M, N), which the grid and the atom divide. A warp's atoms are ordered
 * by rows; each is SizeC() consecutive registers.
 */
Fragment MmaFragmentC(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t n);
/*!
 * The fragment of a tile A (M, K), the same in all warps of a row of the grid. A warp's atoms are
 * ordered by rows, then K; each is SizeA() consecutive registers.
 */
Fragment MmaFragmentA(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t k);

/*!
 * Returns for how many steps along K one word of metadata serves. Metadata describe a sparse A,
 * whose atoms count K in stored elements: two parts of 16 bits of each row (for 8-bit elements:
 * of 32). A word of a thread is a part of rows g and g + 8 (or of one row), and a selector says
 * which lanes of a quad an instruction asks. PTX ISA, "Sparse matrix storage", "mma.sp".
 */
int64_t MetadataSteps(const MmaAtom& atom, int64_t steps);
/*!
 * The fragment of a tile E (M, columns) of the metadata in order, in elements of `bits`. A warp's
 * words are ordered by atoms of rows, then K.
 */
Fragment MmaFragmentMetadata(const MmaAtom& atom, const WarpGrid& grid, int64_t m, int64_t columns,
                             int64_t bits);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_MMA_LAYOUT_H_
