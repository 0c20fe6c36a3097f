#ifndef TILELANG_ANALYSIS_INDEPENDENT_BLOCKS_H_
#define TILELANG_ANALYSIS_INDEPENDENT_BLOCKS_H_

#include "ir/stmt.h"

namespace tilelang::analysis {

// Returns whether blocks are independent: no block can observe the order in which others run.
bool AreIndependent(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_INDEPENDENT_BLOCKS_H_
