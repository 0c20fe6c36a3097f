// Stages of the loop of a plain gemm, and the shared memory that they take.
#ifndef TILELANG_TILING_LOOP_STAGES_H_
#define TILELANG_TILING_LOOP_STAGES_H_

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Loads of this many iterations hide the latency of memory; more only where there is room.
inline constexpr int64_t kFewestStages = 3;
// More stages than these only take shared memory.
inline constexpr int64_t kMostStages = 12;
// Below this many iterations, a block begins and ends for as long as it loads.
inline constexpr int64_t kLongLoop = 32;
// Stages of loops that are pipelined so that tiles can be chosen: choose_tiles takes as many as
// fit.
inline constexpr int64_t kStagesBeforeChoice = 2;
// Bytes of shared memory that a block takes besides its tiles: the driver's, barriers.
inline constexpr int64_t kBlockBytes = 2048;
// Bytes that an epilogue in slices leaves to barriers and reductions.
inline constexpr int64_t kEpilogueBytes = 6144;

// Bytes of shared memory: of an iteration's tiles, and of all others.
struct LoopStages {
  int64_t given;
  int64_t bytes;
  int64_t others;
  int64_t iterations;

  int64_t Bytes(int64_t stages) const { return others + stages * bytes; }
  // Returns whether a block can have `stages` stages.
  bool Fits(int64_t stages, const Target& target) const {
    return Bytes(stages) + kBlockBytes <= target->shared_memory_per_block;
  }
  // Returns whether the loads of so many stages are in flight long enough where blocks of a cluster
  // share the iterations.
  bool HideLatency(int64_t stages) const;
  // Returns as many stages as have room if an SM holds `blocks`.
  int64_t Room(int64_t blocks, const Target& target) const;
};

// Describes the loop of a launch, whose iterations `parts` blocks of a cluster will share.
LoopStages StagesOf(const ir::KernelLaunchNode* launch, const PlainGemm& plain, int64_t parts = 1);
// `s` with as many stages of that loop.
ir::Stmt WithStages(const ir::Stmt& s, const ir::ForNode* loop, int64_t stages);

// Returns whether TMA can load all tiles of the loop.
bool LoadsByTma(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
                const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_LOOP_STAGES_H_
