// Channels: how tiles cross from the role that loads them to the roles that use them.
#ifndef TILELANG_SCHEDULE_CHANNEL_H_
#define TILELANG_SCHEDULE_CHANNEL_H_

#include <string>
#include <vector>

#include "ir/copy_operator.h"
#include "ir/gemm.h"

namespace tilelang::schedule {

// One place where a channel is used: in this sequence, statements `loads` fill a slot, and
// statements from `first_use` to `last_use`, all of them later, read it. Each time the sequence
// runs is one use of the channel.
struct Handover {
  const ir::SeqNode* seq = nullptr;
  std::vector<size_t> loads;
  size_t first_use = 0;
  size_t last_use = 0;

  bool operator==(const Handover&) const = default;
};

// Tiles that are always loaded and used together, in a ring of slots. Use number n is in slot
// n % slots: its producer waits until use n - slots has been released, its consumers until it is
// full.
struct Channel {
  std::vector<ir::Buffer> tiles;
  int64_t slots = 0;
  std::vector<Handover> handovers;
  int64_t blocks = 0;   // a mask of the cluster's blocks that get the tiles of one; 0: each its own
  int64_t cluster = 1;  // its size

  std::string Name() const { return tiles.front()->name; }
  bool Has(const ir::Buffer& tile) const;
  bool HasInputOf(const ir::GemmNode* gemm) const;
};

// Returns the buffer with one more attribute, which is true.
ir::Buffer Marked(const ir::Buffer& buffer, const char* mark);

// The stages of a pipelined loop; 0 for other loops.
int64_t StagesOf(const ir::ForNode* loop);
// Returns the loop with another number of stages. `kept`: an annotation that gets the number that
// the loop has now, unless it already has the annotation.
ir::For WithStages(const ir::ForNode* loop, int64_t stages, const char* kept = nullptr);

// An attribute of pipelined loops (int): the slots of each tile that they load, if they are not as
// many as the stages.
inline constexpr const char* kTileSlots = "slots";
int64_t SlotsOf(const ir::ForNode* loop);

// The loader of a tile: TMA, or threads that each copy single elements (op/copy_async.h).
enum class Loader : uint8_t { kTma, kThreads };

// The channels of a launch with planned copies: the tiles that such loads bring inside of loops
// that are pipelined over two stages or more, where every access of the tile is a load of the whole
// of it, or a use after that in the same sequence. In the order of the program. Remarks say which
// loads are not pipelined, and why.
std::vector<Channel> FindChannels(const ir::KernelLaunchNode* launch, Loader loader);

// A remark on a load of either kind.
void RemarkLoad(const ir::Stmt& load, const std::string& text);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_CHANNEL_H_
