#ifndef TILELANG_ANALYSIS_INDEPENDENT_BLOCKS_H_
#define TILELANG_ANALYSIS_INDEPENDENT_BLOCKS_H_

#include "ir/stmt.h"

namespace tilelang::analysis {

// Whether blocks compute by themselves: none sees in which order the others run.
bool AreIndependent(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_INDEPENDENT_BLOCKS_H_
