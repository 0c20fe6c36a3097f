#ifndef TILELANG_TILING_DIVIDE_SOFTMAX_H_
#define TILELANG_TILING_DIVIDE_SOFTMAX_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Divides the keys of attention among the blocks of a cluster, where the grid has few blocks: those
// of one query or of a short prompt leave most multiprocessors idle.
//
//     block:  highest = -inf, sums = 0;  loop over keys: softmax;  store sums / total
//
// becomes
//
//     block (.., part):  highest = lowest, sums = 0;  loop over keys of `part`: softmax
//                        send rows of highest and sums to the blocks that merge them
//                        merge own rows of all parts;  store own rows of sums / total
//
// Block `part` of P merges rows [part * rows / P, (part + 1) * rows / P) of a tile. It gets its
// rows of the maxima m_p and the sums s_p of each part by one bulk copy between shared memories,
// and computes m = max(m_p) and s = sum(s_p * e(m_p - m)), of its own part first and then of the
// parts of lower ranks, in turn. Sums are therefore the same each time, although they differ in
// their last bits from the sums of one block.
//
// A part may see only masked keys of a row that has others. If maxima begin with -inf, parts begin
// with the lowest finite number instead, so that no weight is e(-inf - -inf): finite scores are at
// least that number, and weights of masked ones are zero. Merged maxima of rows without a finite
// score become -inf again. Maxima that begin with a finite number do so in each part, and sums with
// zero. A part may have no iteration. The last part of an uneven number has fewer.
//
// If statements behind the loop do not treat rows one by one (tiling/tile_cutter.h), as where only
// some rows of a tile are stored, blocks send their merged rows on to block 0, which executes these
// statements.
//
// It applies to loops of chained GEMMs that are a running softmax (analysis/running_softmax.h), if
// nothing else goes on from one iteration to the next or leaves the loop, if parts save enough
// iterations, and if shared memory has room for the rows that a block receives, beside two stages
// of the operands. Loops of a number known at the launch are taken for long. Maxima may be those of
// each iteration instead of the greatest so far, or have another number in place of minus infinity,
// if statements behind the loop divide results by sums, and use neither in another way.
//
// For targets with clusters: sm_90a and sm_100a. A remark names the parts, or why there are none.
// The pass options tl.disable_tile_choice, tl.disable_split_k, tl.disable_block_fitting and
// tl.batch_invariant turn it off, and tl.tile_parts fixes the number of parts.
ir::Func DivideSoftmax(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_DIVIDE_SOFTMAX_H_
