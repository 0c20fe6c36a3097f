// Loops in which the tensor core runs from one iteration to the next without a wait: they hold
// gemms by tcgen05 alone.
#ifndef TILELANG_SCHEDULE_FREE_RUNNING_H_
#define TILELANG_SCHEDULE_FREE_RUNNING_H_

#include <unordered_set>
#include <vector>

#include "ir/tile_op.h"
#include "schedule/channel.h"

namespace tilelang::schedule {

// The pipelined loops of a launch whose bodies hold gemms by tcgen05 that the compiler waits for,
// and but for these only loads and scalars, where A and B are tiles of one channel that nothing
// else uses, or not written in the loop. One warp runs the loop: it waits for the tiles of an
// iteration and issues the gemms, and a commit releases the tiles when these are complete. After
// the loop all threads wait for the last ones.
class FreeRunning {
 public:
  FreeRunning(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels);

  bool Has(const ir::ForNode* loop) const { return loops_.count(loop) != 0; }
  // All uses of the channel are in such loops: its slots are released by the tensor core.
  bool Releases(const Channel& channel) const { return released_.count(Key(channel)) != 0; }

 private:
  static const tvm::ffi::Object* Key(const Channel& channel) { return channel.tiles[0].get(); }

  std::unordered_set<const ir::StmtNode*> loops_;
  std::unordered_set<const tvm::ffi::Object*> released_;  // first tiles of channels
};

// A gemm of such a loop, issued by the first warp of its threads without a barrier of them, which
// is before the loop, and waited for by nobody here. `releases`: the mbarrier of the tiles, of the
// last gemm that uses them; else null.
ir::Stmt FreeRunningGemm(const ir::GemmNode* gemm, const ir::Expr& releases);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_FREE_RUNNING_H_
