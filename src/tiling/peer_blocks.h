// Blocks of a cluster that share the iterations of one block, and send each other tiles.
#ifndef TILELANG_TILING_PEER_BLOCKS_H_
#define TILELANG_TILING_PEER_BLOCKS_H_

#include "ir/stmt.h"

namespace tilelang::tiling {

// Writes the statements of block number `part`, a name, of `parts` blocks.
class PeerBlocks {
 public:
  PeerBlocks(ir::Span span, int64_t parts);

  const ir::Var& part() const { return part_; }
  int64_t parts() const { return parts_; }

  // Returns the launch with another axis of `blocks` blocks, whose index is `part`.
  ir::KernelLaunch WithAxis(const ir::KernelLaunchNode* launch, int64_t blocks) const;
  // Returns the launch in clusters of the peers. They lie along another axis of the grid, or along
  // the last one of three.
  ir::KernelLaunch InClusters(const ir::KernelLaunchNode* launch, const ir::Stmt& body) const;
  // Returns iterations [part * steps, part * steps + extent) of a loop.
  ir::Stmt Iterations(const ir::ForNode* loop, const ir::Expr& steps, const ir::Expr& extent) const;

  // Each block sends one operator's tile to each other block, `distance` ranks on, and waits once
  // for what the block `distance` ranks before it has sent.
  ir::Expr Rank(int64_t distance) const;
  ir::Stmt AllocateBarriers() const;
  ir::Stmt Send(const ir::Region& from, const ir::Buffer& to, int64_t distance) const;
  ir::Stmt Wait(int64_t distance) const;

  // Block 0 leads. Each block, this one too, sends it one tile, and it waits for all of them.
  ir::Stmt AllocateBarrierOfLeader() const;
  ir::Stmt SendToLeader(const ir::Buffer& from, const ir::Region& to) const;
  ir::Stmt WaitForAll() const;
  ir::Stmt ByLeader(const ir::Stmt& body) const;

 private:
  ir::Expr Arrival(int64_t distance) const;
  ir::Buffer Barrier(const char* name, int64_t count, int64_t arrivals) const;

  ir::Span span_;
  int64_t parts_;
  ir::Var part_;
  ir::Buffer arrived_;
  ir::Buffer gathered_;
};

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PEER_BLOCKS_H_
