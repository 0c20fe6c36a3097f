// Writes waits as instructions.
#ifndef TILELANG_SYNC_WRITE_WAITS_H_
#define TILELANG_SYNC_WRITE_WAITS_H_

#include "ir/async.h"

namespace tilelang::sync {

// Each Wait in `s`, the body of a launch, becomes the instructions of its mechanism, each Issue its
// body:
//   kTmaLoad, kTcgen05  mbarrier wait, step to the next phase
//   kTmaStore bulk.wait_group 0, with .read unless `written`, by the thread that issued them
//   kWgmma    wgmma.wait_group, and what keeps uses of its registers behind it
ir::Stmt WriteWaits(const ir::Stmt& s, const ir::KernelLaunchNode* launch);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_WRITE_WAITS_H_
