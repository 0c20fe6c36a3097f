// Threads of blocks whose fragments need more registers than a thread has.
#ifndef TILELANG_TILING_FIT_THREADS_H_
#define TILELANG_TILING_FIT_THREADS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Returns whether a launch computes the same with any number of threads: nothing in it depends on
// them, and the program states no layouts or registers of theirs.
bool HasOpenThreads(const ir::KernelLaunchNode* op);

// Doubles the threads of a launch, once or several times, where its fragments would be spilled to
// local memory, which takes several times as long as all else. Attention of 128 rows, 128 keys and
// 128 dimensions needs 344 registers of each of 128 threads, and half of these of each of 256.
//
// On targets with wgmma, 256 threads instead of 128 also compute a block of a plain GEMM if threads
// load its tiles, because TMA cannot load their rows, and its sums take half of their registers.
//
// Applies to all targets, and to launches in which nothing depends on the number of threads
// (tiling/plain_gemm.h). GEMMs keep their instruction: each warpgroup has whole rows of wgmma. The
// layouts of tensor memory bind its lanes to warps, so launches that use it stay as they are.
ir::Func FitThreads(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_FIT_THREADS_H_
