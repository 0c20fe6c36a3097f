#include "ir/min_blocks.h"

#include <tvm/ffi/cast.h>

namespace tilelang::ir {

namespace {

constexpr const char* kMinBlocks = "min_blocks_per_sm";

}  // namespace

bool StatesMinBlocks(const KernelLaunchNode* launch) {
  return launch->attrs.count(kMinBlocks) != 0;
}

int64_t MinBlocks(const KernelLaunchNode* launch) {
  auto blocks = launch->attrs.Get(kMinBlocks);
  return blocks ? (*blocks).cast<int64_t>() : 1;
}

KernelLaunch WithMinBlocks(const KernelLaunchNode* launch, int64_t blocks) {
  auto attrs = launch->attrs;
  attrs.Set(kMinBlocks, blocks);
  return KernelLaunch(launch->block_vars, launch->grid, launch->thread_vars, launch->threads, attrs,
                      launch->body, launch->span);
}

}  // namespace tilelang::ir
