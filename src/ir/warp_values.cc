#include "ir/warp_values.h"

#include <algorithm>
#include <array>

namespace tilelang::ir {

bool IsVoteOfWarp(const CallNode* call) {
  static const std::array<const Intrinsic*, 3> votes = {
      FindIntrinsic("any_sync"), FindIntrinsic("all_sync"), FindIntrinsic("ballot")};
  bool has_mask = call->args.size() != 1;
  return !has_mask && std::find(votes.begin(), votes.end(), call->intrinsic) != votes.end();
}

}  // namespace tilelang::ir
