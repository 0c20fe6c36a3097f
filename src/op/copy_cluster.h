// Copies that reach other blocks of the cluster: loads by TMA of one block for several, and copies
// between the shared memories of two.
#ifndef TILELANG_OP_COPY_CLUSTER_H_
#define TILELANG_OP_COPY_CLUSTER_H_

#include <string>
#include <vector>

#include "op/instruction.h"

namespace tilelang::op {

// Blocks of a cluster of the launch.
int64_t ClusterSize(const ir::KernelLaunchNode* launch);
// The first function returns whether an operation in the statement acts on shared memory or
// mbarriers of other blocks. The second one returns whether some of these operations have no wait
// in the statement.
bool ReachesOtherBlocks(const Stmt& s);
bool LeavesOtherBlocksOpen(const Stmt& s);

// Returns the rank of the block that loads for all blocks of a mask (ir::CopyOptionsNode).
int64_t Leader(int64_t mask);
int64_t CountBlocks(int64_t mask);
// Returns whether the rank of the block is in a mask of a cluster of `size`.
Expr IsInMask(int64_t mask, int64_t size);
Expr BlockRank();

// A function of TileLang that no other instruction or loop may carry out than an asynchronous one:
// its name, or null.
const char* AsyncCopyName(const ir::CopyNode* op);
// Returns whether the program itself tells the mbarrier how many bytes to expect.
bool IsAnnounced(const ir::CopyNode* op);

// cp.async.bulk from shared memory to that of another block, which completes on its mbarrier.
const TileInstruction* BlockCopy();
// The copy to another block as a loop of threads that store. If it completes on a barrier of that
// block, one of the threads arrives there when all of them have stored.
Stmt StoreToBlock(const ir::CopyNode* op, const Context& ctx);
// The remark on such a copy, to which the reason is added.
inline constexpr const char* kByThreads = "is stored by threads, one of which arrives";
// The call that stores one element.
inline constexpr const char* kStoreToBlock = "store_to_block";
// An attribute of it: an arrival with the scope of several blocks follows and tells of it.
inline constexpr const char* kAcrossBlocks = "across_blocks";
// An attribute of calls: Array<Buffer>, whose counterparts in another block they write.
inline constexpr const char* kRemoteWrites = "remote_writes";

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_CLUSTER_H_
