// Loops whose gemms by tcgen05 a warp of their own issues: when it takes its turn, and when the
// threads wait for it.
#ifndef TILELANG_SCHEDULE_GEMM_TURNS_H_
#define TILELANG_SCHEDULE_GEMM_TURNS_H_

#include <optional>
#include <string>
#include <vector>

#include "op/context.h"
#include "schedule/channel.h"
#include "schedule/role_slice.h"
#include "schedule/turn_loop.h"

namespace tilelang::schedule {

// The loops of a launch, and the barriers of all turns. Where warpgroups own blocks of 128 rows of
// all tiles in tensor memory, each takes turns of its own: while the tensor core works on the rows
// of one, the threads of another work on theirs.
class GemmTurns {
 public:
  // Finds the turns. `threads`: the number of threads of the program. Results may take `columns` of
  // tensor memory.
  GemmTurns(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels,
            int64_t threads, int64_t columns);

  bool empty() const { return loops_.empty(); }
  const TurnLoop* Find(const ir::StmtNode* loop_or_body) const;
  const std::vector<TurnLoop>& loops() const { return loops_; }
  // All uses of the channel are such gemms: its slots are released by the tensor core.
  bool Releases(const Channel& channel) const;
  const RoleSlice& slice() const { return slice_; }
  int64_t blocks() const { return blocks_; }
  // Returns whether a pair of CTAs computes the gemms. The warp of the leader then issues them for
  // both.
  bool in_pairs() const { return in_pairs_; }
  // Mbarriers of a stream, one a block of rows: the threads are ready for a turn; it is done.
  struct Barriers {
    ir::Buffer ready;
    ir::Buffer done;
  };
  // Returns the barriers, as many as the loop with most streams needs.
  const std::vector<Barriers>& barriers() const { return barriers_; }
  // Returns whether gemms of turns use the tile, which is in tensor memory.
  bool Touch(const ir::Buffer& tile) const;
  // Operands in shared memory that no channel brings.
  const std::vector<ir::Buffer>& operands() const { return operands_; }
  // Returns whether threads may write an operand before the loop or after it; anywhere, if the loop
  // is inside of another one.
  enum class When { kBefore, kAfter };
  bool AreWritten(const TurnLoop& loop, When when) const;
  // Returns whether threads write an operand in the loop.
  bool AreWrittenIn(const TurnLoop& loop) const { return Writes(loop.loop->body); }
  // Returns whether threads of both blocks of a pair write operands anywhere.
  bool AreWrittenInPairs() const { return in_pairs_ && Writes(launch_->body); }

 private:
  void AddLoop(const ir::ForNode* loop, const std::vector<Channel>& channels);
  static void RemarkByThreads(const ir::ForNode* loop, const std::string& reason);
  bool Writes(const ir::Effect& effect) const;
  bool Writes(const ir::Stmt& s) const;
  bool HasInnerLoop(const TurnLoop& loop) const;
  void RemoveLoopsWithMixedChannels(const std::vector<Channel>& channels);
  int64_t ChooseBlocks(const std::vector<Channel>& channels, int64_t threads) const;
  void FindResults(int64_t columns);
  void FindOperands(const std::vector<Channel>& channels);

  std::vector<TurnLoop> loops_;
  RoleSlice slice_;
  std::vector<const tvm::ffi::Object*> released_;  // first tiles of channels
  int64_t blocks_ = 1;
  bool in_pairs_;
  std::vector<Barriers> barriers_;
  std::vector<ir::Buffer> operands_;
  const ir::KernelLaunchNode* launch_;
};

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_GEMM_TURNS_H_
