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

namespace tilelang::schedule {

// Gemms that are issued one after another, with nothing of the threads in between. Statements are
// given by their index in the body of the loop.
struct Turn {
  std::vector<size_t> gemms;  // of this iteration
  bool leads = false;         // then those that the next iteration begins with
  size_t after = 0;           // begins when the threads have executed this statement
};

// Gemms of a loop that take turns with the threads. Statements of threads take part if they touch
// what these gemms write, or write what they read; before such a one the threads wait for the turn
// that is under way.
//
// Gemms at the begin of an iteration, before any such statement, belong to the last turn of the
// iteration before: Q K of the next block of keys is issued right after P V of this one. Without
// such statements the whole loop is one turn, in which the tensor core never stops.
struct TurnStream {
  std::vector<size_t> gemms;
  std::vector<size_t> leading;  // of them: issued in the iteration before, or before the loop
  std::vector<Turn> turns;      // none: the loop is one
  std::vector<bool> part;       // statements of threads that take part
  std::vector<bool> waits;      // of them: the threads wait before
  bool open = false;            // between two iterations, and around the loop, a turn is under way
  ir::Array<ir::Buffer> tensor_memory;  // of the gemms

  bool IsGemm(size_t i) const;
  const Turn* TurnAfter(size_t i) const;
};

// A pipelined loop and its turns. Its gemms stand in one sequence: the body or, in a loop that is
// one turn, what the body executes under a condition, as blocks that a mask leaves out. Where the
// gemms that an iteration begins with share no tile with the others, they are a stream of their
// own, streams[kAhead]: Q K of the next block of keys is issued as soon as the threads have taken
// this one's result to registers, and runs beside the softmax. All others are in streams[kMain].
struct TurnLoop {
  enum Stream : size_t { kMain = 0, kAhead = 1 };

  const ir::ForNode* loop = nullptr;
  const ir::SeqNode* body = nullptr;  // the sequence
  std::vector<TurnStream> streams;
  bool is_guarded = false;  // by a condition

  // The results of the loop, in two slots: the tensor core goes on to the next tile of a persistent
  // kernel while threads work on these. Without tiles if it has to wait for them.
  Channel results;

  const TurnStream& main() const { return streams[kMain]; }
  bool IsOneTurn() const { return main().turns.empty(); }
  bool RunsAhead() const { return !results.tiles.empty(); }
  bool IsGemm(size_t i) const;
  bool IsPart(size_t i) const;
  std::vector<size_t> Gemms() const;
  // Both leading gemms and others may use the tiles.
  bool IsSplit(const Handover& handover) const;
};

// The loops of a launch, and the barriers of all turns. Where warpgroups own blocks of 128 rows of
// all tiles in tensor memory, each takes turns of its own: while the tensor core works on the rows
// of one, the threads of another work on theirs.
class GemmTurns {
 public:
  // `threads` are those of the program.
  // Their results may take `columns` of tensor memory.
  GemmTurns(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels,
            int64_t threads, int64_t columns);

  bool empty() const { return loops_.empty(); }
  const TurnLoop* Find(const ir::StmtNode* loop_or_body) const;
  const std::vector<TurnLoop>& loops() const { return loops_; }
  // All uses of the channel are such gemms: its slots are released by the tensor core.
  bool Releases(const Channel& channel) const;
  const RoleSlice& slice() const { return slice_; }
  int64_t blocks() const { return blocks_; }
  // Whether a pair of CTAs computes the gemms: the leader's warp issues them for both.
  bool in_pairs() const { return in_pairs_; }
  // Mbarriers of a stream, one a block of rows: the threads are ready for a turn; it is done.
  struct Barriers {
    ir::Buffer ready;
    ir::Buffer done;
  };
  // As many as the loop of most streams has.
  const std::vector<Barriers>& barriers() const { return barriers_; }
  // Whether gemms of turns use the tile, which is in tensor memory.
  bool Touch(const ir::Buffer& tile) const;
  // Operands in shared memory that no channel brings.
  const std::vector<ir::Buffer>& operands() const { return operands_; }
  // Whether threads may write some of them before the loop, or after it: where it is in another
  // loop, anywhere.
  enum class When { kBefore, kAfter };
  bool AreWritten(const TurnLoop& loop, When when) const;
  // Whether they do in the loop.
  bool AreWrittenIn(const TurnLoop& loop) const { return Writes(loop.loop->body); }
  // Whether threads of both blocks of a pair write operands, anywhere.
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
