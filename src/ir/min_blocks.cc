#include "ir/min_blocks.h"

#include <tvm/ffi/cast.h>

#include "ir/changed_launch.h"

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
  return WithAttr(launch, kMinBlocks, blocks);
}

}  // namespace tilelang::ir
