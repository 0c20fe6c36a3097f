// One pipelined loop whose gemms by tcgen05 a warp of its own can issue: in which turns with the
// threads, and when these wait.
#ifndef TILELANG_SCHEDULE_TURN_LOOP_H_
#define TILELANG_SCHEDULE_TURN_LOOP_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/gemm.h"
#include "schedule/channel.h"

namespace tilelang::schedule {

// Gemms that are issued one after another, with nothing of the threads in between. Statements are
// given by their index in the body of the loop.
struct Turn {
  std::vector<size_t> gemms;  // of this iteration
  bool leads = false;         // then the GEMMs that the next iteration begins with
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

// A gemm by tcgen05 that the compiler waits for; null for other statements.
const ir::GemmNode* AsTurnGemm(const ir::Stmt& s);
bool HasTurnGemm(const ir::Stmt& s);
// Returns whether TMA is planned for the copy, to a shared tile. Returns false for null.
bool IsLoadByTma(const ir::CopyNode* copy);
// The channel that brings a tile; null for none.
const Channel* ChannelOf(const ir::Buffer& tile, const std::vector<Channel>& channels);
// A loop with such gemms, divided into turns; nothing where they stand apart, and sets why.
std::optional<TurnLoop> FindTurnLoop(const ir::ForNode* loop, const std::vector<Channel>& channels,
                                     std::string* reason);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_TURN_LOOP_H_
