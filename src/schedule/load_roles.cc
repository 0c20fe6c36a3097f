#include "schedule/load_roles.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/remark.h"

namespace tilelang::schedule {

namespace {

constexpr size_t kManyLoads = 4;

const ir::CopyNode* LoadAt(const Handover& handover, size_t at) {
  return handover.seq->stmts[at].as<ir::CopyNode>();
}

// Returns whether each use of a channel takes many loads: the barrier of a slot counts the warps
// that load, which are the same ones for all uses.
bool HasManyLoads(const Channel& channel) {
  return std::all_of(channel.handovers.begin(), channel.handovers.end(),
                     [](const Handover& handover) { return handover.loads.size() >= kManyLoads; });
}

}  // namespace

std::vector<Channel> Loadable(const std::vector<Channel>& channels,
                              const ir::KernelLaunchNode* launch, RoleSlice* slice) {
  std::vector<Channel> result;
  RoleSlice all(launch);
  for (const Channel& channel : channels) {
    std::vector<const ir::CopyNode*> loads;
    for (const Handover& handover : channel.handovers) {
      for (size_t at : handover.loads) loads.push_back(LoadAt(handover, at));
    }
    RoleSlice alone(launch);
    std::string reason;
    for (const ir::CopyNode* load : loads) {
      if (reason.empty()) reason = alone.Add(load);
    }
    for (const ir::CopyNode* load : loads) {
      if (reason.empty()) {
        all.Add(load);
      } else {
        RemarkCopy(load, "is not pipelined: " + reason);
      }
    }
    if (reason.empty()) result.push_back(channel);
  }
  *slice = std::move(all);
  return result;
}

std::vector<RoleSlice> DivideLoads(const std::vector<Channel>& channels,
                                   const ir::KernelLaunchNode* launch) {
  RoleSlice first(launch), second(launch);
  bool divided = false;
  for (const Channel& channel : channels) {
    bool many = HasManyLoads(channel);
    divided |= many;
    for (const Handover& handover : channel.handovers) {
      size_t count = handover.loads.size();
      size_t half = many ? (count + 1) / 2 : count;
      for (size_t i = 0; i < count; ++i) {
        (i < half ? first : second).Add(LoadAt(handover, handover.loads[i]));
      }
    }
  }
  std::vector<RoleSlice> slices = {std::move(first)};
  if (divided) slices.push_back(std::move(second));
  return slices;
}

int64_t WarpsLoading(const Channel& channel, const std::vector<RoleSlice>& loads) {
  const Handover& handover = channel.handovers.front();
  return std::count_if(loads.begin(), loads.end(), [&](const RoleSlice& slice) {
    return std::any_of(handover.loads.begin(), handover.loads.end(),
                       [&](size_t at) { return slice.Has(LoadAt(handover, at)); });
  });
}

}  // namespace tilelang::schedule
