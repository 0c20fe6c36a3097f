#ifndef TILELANG_TILING_STAGED_RESULTS_H_
#define TILELANG_TILING_STAGED_RESULTS_H_

#include "ir/stmt.h"

namespace tilelang::tiling {

// Returns the statement whose copies of fragments to tensors of 16 bits go through shared memory,
// from which TMA stores them, or threads store vectors. For fragments whose threads have columns.
ir::Stmt WithStagedResults(const ir::Stmt& s);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_STAGED_RESULTS_H_
