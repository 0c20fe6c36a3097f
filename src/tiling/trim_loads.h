#ifndef TILELANG_TILING_TRIM_LOADS_H_
#define TILELANG_TILING_TRIM_LOADS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Marks loads of plain gemms (tiling/plain_gemm.h) whose tiles have more rows than their tensor
// (schedule/missing_rows.h): the accelerator would write zeros for rows that do not exist, in every
// iteration, more slowly than it loads others. On targets with wgmma; a remark says it.
ir::Func TrimLoads(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TRIM_LOADS_H_
