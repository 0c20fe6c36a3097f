#include "emulator/instructions/memory_poll.h"

#include <cstdio>

namespace tilelang::emulator {
namespace {

std::string DescribeValue(const Warp&, const WaitInfo& info) {
  char text[48];
  std::snprintf(text, sizeof text, "which holds 0x%llx",
                static_cast<unsigned long long>(info.detail));
  return text;
}

std::string DescribeGlobal(const Warp& warp, const WaitInfo& info) {
  return warp.cta.cluster.launch.global.Describe(info.address) + ", " + DescribeValue(warp, info);
}

}  // namespace

WaitInfo MemoryPoll(Space space, uint64_t address, uint64_t value) {
  const bool global =
      space == Space::kGlobal || (space == Space::kGeneric && (address >> kBufferShift) != 0);
  WaitInfo info;
  info.object = global                   ? "global memory"
                : space == Space::kLocal ? "local memory"
                                         : "shared memory";
  info.address = address;
  info.detail = static_cast<int64_t>(value);
  info.describe = global ? DescribeGlobal : DescribeValue;
  return info;
}

}  // namespace tilelang::emulator
