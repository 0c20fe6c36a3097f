#include "analysis/grid_blocks.h"

#include <tvm/ffi/cast.h>

#include <limits>

#include "arith/analyzer.h"

namespace tilelang::analysis {

int64_t BlocksOf(const ir::KernelLaunchNode* launch) {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  auto known = launch->attrs.Get(kMostBlocks);
  if (known) return (*known).cast<int64_t>();
  arith::Analyzer analyzer;
  int64_t blocks = 1;
  for (const ir::Expr& extent : launch->grid) {
    int64_t most = analyzer.ConstBounds(extent).hi;
    if (most >= kMany) return kMany;
    blocks *= most;
  }
  return blocks;
}

}  // namespace tilelang::analysis
