#ifndef TILELANG_LOWER_KEEP_MAXIMA_H_
#define TILELANG_LOWER_KEEP_MAXIMA_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Lets the running maximum of a row in attention stay as it is until the maximum has grown by so
// much that weights would exceed 2^8. A result in tensor memory is then rescaled a few times per
// row instead of in almost every iteration: if any of 32 rows has a new maximum, a warp loads,
// multiplies and stores its part of the result.
//
//   for k in ..:                                  for k in ..:
//     gemm(.., S)                                   gemm(.., S)
//     copy(m, b)                                    copy(m, b)
//     reduce_max(S, m, clear=False)                 reduce_max(S, m, clear=False)
//     f[i] = exp(b[i] * c - m[i] * c)               f[i] = exp(b[i] * c - m[i] * c)
//                                                   t[i] = max(t[i], m[i])
//                                                   m[i], f[i] = (b[i], 1) if f[i] >= 2^-8
//     S[i, j] = exp(S[i, j] * c - m[i] * c)         S[i, j] = exp(S[i, j] * c - m[i] * c)
//     reduce_sum(S, a)                              reduce_sum(S, a)
//     l[i] = l[i] * f[i] + a[i]                     l[i] = l[i] * f[i] + a[i]
//     o[i, j] *= f[i]                               o[i, j] *= f[i]
//     gemm(S, V, o)                                 gemm(S, V, o)
//                                                 l[i] *= exp((m[i] - t[i]) * c), o[i, j] likewise
//                                                 m[i] = t[i]
//
// The sums l and o are relative to exp(m): any m gives the same quotients. After the loop they are
// relative to the true maximum again, so the program around the loop needs no condition. The pass
// proves that the loop uses m, f and the weights in no other way, and that no score of a weight is
// above the maximum that its iteration takes. Weights are float32, bfloat16 or
// float16, which hold 2^8; sums are float32. Results change by roundings only.
//
// Many programs take the maximum of each tile alone: they fill m with minus infinity before the
// reduction. If nothing but quotients o[i, j] / l[i] is read behind the loop, m becomes the maximum
// of all tiles so far, `m[i] = max(m[i], b[i])`, before the factor is computed. A row of which a
// tile has no score but minus infinity then has a result, which was no number.
//
// Applies to targets with tensor memory (sm_100a). On sm_80, sm_90a and sm_120a results are in
// registers, and threads multiply all rows in any case. A remark at the loop states it, and the
// pass option tl.disable_kept_maxima turns it off.
ir::Func KeepMaxima(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_KEEP_MAXIMA_H_
