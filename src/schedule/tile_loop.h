// Loops over tiles that a scheduler gives out while the kernel runs: T.Persistent asks for the next
// number (the intrinsic "next_tile"), here that becomes a channel from who asks to all roles.
#ifndef TILELANG_SCHEDULE_TILE_LOOP_H_
#define TILELANG_SCHEDULE_TILE_LOOP_H_

#include <string>
#include <vector>

#include "op/context.h"
#include "schedule/description.h"
#include "schedule/ring.h"
#include "schedule/role_slice.h"

namespace tilelang::schedule {

// An annotation of loops over tiles of a block that no scheduler gives out.
inline constexpr const char* kStaticTiles = "static_tiles";

// A role of the compiler, and its threads.
struct TileReader {
  const char* name;
  ir::Stmt* program;
  op::ThreadRange threads;
  int64_t share = 1;  // one of so many blocks of a cluster has it
};

// The tile loops of a launch that is divided into roles. One thread of the block, or of the
// cluster, asks: it is a role of its own, up to as many tiles ahead of the slowest reader as the
// channel has slots.
class TileLoops {
 public:
  explicit TileLoops(const ir::KernelLaunchNode* launch);
  TileLoops(const TileLoops&) = delete;
  TileLoops& operator=(const TileLoops&) = delete;

  bool empty() const { return channels_.empty(); }
  // Returns why no thread of its own can ask, or an empty string when one can.
  const std::string& obstacle() const { return obstacle_; }
  // Makes the channels, and has the roles read numbers from them.
  void Connect(const std::vector<TileReader>& readers, Description* description);
  // The role that asks, of one thread; after Connect.
  ir::Stmt WriteScheduler() const;
  // Returns the rings of the channels, after Connect.
  const std::vector<Ring>& rings() const { return rings_; }

 private:
  const ir::KernelLaunchNode* launch_;
  RoleSlice slice_;
  std::vector<Channel> channels_;
  std::vector<Ring> rings_;
  std::string obstacle_;
};

// Adds remarks to loops with a counter whose tiles all take equally many steps, and to loops
// without a counter whose tiles do not.
void RemarkTiles(const ir::KernelLaunchNode* launch);

// The tile loops of a launch whose threads do everything: the first thread asks for a tile while
// the one before is computed, and tells the others at a barrier. Before that, through what.
ir::Stmt WriteTileLoops(const ir::KernelLaunchNode* launch);
std::vector<Channel> TilesAlone(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_TILE_LOOP_H_
