#ifndef TILELANG_TILING_TRIM_LOADS_H_
#define TILELANG_TILING_TRIM_LOADS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Marks loads of plain gemms (tiling/plain_gemm.h) whose tiles have more rows than their tensor
// (schedule/missing_rows.h): the accelerator would write zeros for rows that do not exist, in every
// iteration, more slowly than it loads others. Rows along K stay: they are few in one iteration
// only. A remark says it. Applies to targets with wgmma. On sm_120a GEMMs of 16 and 64 rows would
// take 0.4 % longer by the model of time. With tcgen05.mma, HBM bounds such GEMMs: rows of A take a
// seventh of the time in which an iteration's tile of B arrives.
ir::Func TrimLoads(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TRIM_LOADS_H_
