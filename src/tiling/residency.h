// Estimates how many blocks of a kernel an SM holds, as far as the program tells before it is
// scheduled.
#ifndef TILELANG_TILING_RESIDENCY_H_
#define TILELANG_TILING_RESIDENCY_H_

#include "ir/stmt.h"
#include "target/target.h"

namespace tilelang::tiling {

// Registers of a thread beside its elements of fragments: addresses, conversions.
inline constexpr int64_t kOtherRegisters = 48;
// Registers for fragments that threads of two or three warpgroups have beside one that loads.
int64_t MostBesideLoader(int64_t threads);
// Registers of a thread for the elements of fragments, the most that it holds at a time.
int64_t FragmentRegisters(const ir::KernelLaunchNode* launch);
// Returns whether two or three warpgroups beside one that loads have registers for the fragments,
// and the registers that a thread needs for everything else.
bool HasRegisters(const ir::KernelLaunchNode* launch);

// An estimate of the blocks that an SM of `target` holds at a time, at least one, if each takes
// `shared_bytes`: by the grid, by shared memory, by threads (a producer of the pipelined loops
// among them), and by registers for the elements of fragments and what else threads compute.
int64_t BlocksPerSm(const ir::KernelLaunchNode* launch, const Target& target, int64_t shared_bytes);

// The resources of a block that decide it.
struct BlockNeeds {
  int64_t shared_bytes = 0;
  int64_t threads = 0;       // of the program
  int64_t registers = 0;     // of a thread, for the elements of fragments
  int64_t tmem_columns = 0;  // of accumulators
  bool runs_ahead = false;   // loads of its loops do
  bool multiplies = false;   // it has gemms
};
// The same estimate; 0 where a block has more shared memory, fragments or columns than there are.
int64_t BlocksPerSm(const BlockNeeds& needs, const Target& target);

// Blocks of a cluster that every GPU launches, at most.
inline constexpr int64_t kLargestCluster = 8;
// Clusters of `blocks` blocks that the GPU runs at the same time if each block takes an SM.
int64_t ClustersAtOnce(int64_t blocks, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_RESIDENCY_H_
