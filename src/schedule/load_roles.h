// The loads that warps beside the threads of a program issue.
#ifndef TILELANG_SCHEDULE_LOAD_ROLES_H_
#define TILELANG_SCHEDULE_LOAD_ROLES_H_

#include <vector>

#include "schedule/channel.h"
#include "schedule/role_slice.h"

namespace tilelang::schedule {

// Returns the channels whose loads another role can execute; their loads are in the slice.
std::vector<Channel> Loadable(const std::vector<Channel>& channels,
                              const ir::KernelLaunchNode* launch, RoleSlice* slice);

// Divides the loads of these channels between two warps, where each use of a channel takes so many
// loads that a thread asks for them in about the time of the GEMM: a load of TMA occupies its warp
// for about 50 clocks, and a GEMM with scale factors has four loads. The second warp gets the
// second half of the loads of each such channel. Returns a slice for each warp; one slice if no
// channel has so many loads.
std::vector<RoleSlice> DivideLoads(const std::vector<Channel>& channels,
                                   const ir::KernelLaunchNode* launch);

// Returns how many of the warps load tiles of the channel.
int64_t WarpsLoading(const Channel& channel, const std::vector<RoleSlice>& loads);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_LOAD_ROLES_H_
