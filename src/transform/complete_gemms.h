#ifndef TILELANG_TRANSFORM_COMPLETE_GEMMS_H_
#define TILELANG_TRANSFORM_COMPLETE_GEMMS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Lets GEMMs that the program waits for by hand, in groups of wgmma, wait for their results
// themselves on targets without wgmma, and removes the waits for these groups.
ir::Func CompleteGemms(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_COMPLETE_GEMMS_H_
