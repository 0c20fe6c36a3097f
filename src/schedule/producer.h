// The program of the role that loads the tiles of channels.
#ifndef TILELANG_SCHEDULE_PRODUCER_H_
#define TILELANG_SCHEDULE_PRODUCER_H_

#include <vector>

#include "op/context.h"
#include "schedule/ring.h"
#include "schedule/role_slice.h"

namespace tilelang::schedule {

// The part of the body of a launch that a slice holds, executed by a warp: it waits for a slot to
// be empty before its first load into the slot. One thread arrives with the last one.
ir::Stmt WriteProducer(const RoleSlice& slice, const std::vector<Ring>& rings,
                       const op::ThreadRange& threads, const ir::Stmt& body);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_PRODUCER_H_
