#ifndef TILELANG_TRANSFORM_LEAD_PAIRS_H_
#define TILELANG_TRANSFORM_LEAD_PAIRS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Lets the even block of a pair alone issue what the program issues for both (T.tcgen05_gemm and
// T.tcgen05_cp_warpx4 with use_2cta=True), where both blocks reach it: puts it under a condition.
// Statements that only even blocks reach stay as they are, and so do statements that no even block
// reaches, which CheckProgram refuses.
ir::Func LeadPairs(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_LEAD_PAIRS_H_
