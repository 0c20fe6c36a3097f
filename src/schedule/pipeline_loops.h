// Overlaps the loads of pipelined loops with the work on what they bring: a warp of its own loads,
// ahead of the threads that compute, through rings of slots in shared memory.
#ifndef TILELANG_SCHEDULE_PIPELINE_LOOPS_H_
#define TILELANG_SCHEDULE_PIPELINE_LOOPS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::schedule {

// Kernels whose T.Pipelined loops load tiles by TMA get a producer role: `threads=` of the program
// compute, and further threads run the loops again, with nothing in them but the loads. Each
// channel (schedule/channel.h) becomes a buffer of as many slots as the loop has stages, with a
// barrier "full" and a barrier "empty" of each slot. Every role counts its uses of a channel: use n
// is in slot n % slots and waits for the phase n / slots, so loops may run no iteration, nest,
// begin anywhere, and be run again for the next tile.
//
// It cannot deadlock: the producer loads in the order of the program, and waits for a slot only
// until a use before it in that order is over.
//
// Kernels stay as they are, with a remark, where the program has roles or barriers of its own, or a
// load depends on what the compute threads compute. All pipelined loops become serial ones.
ir::Func PipelineLoops(const ir::Func& func, const Target& target, bool with_roles);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_PIPELINE_LOOPS_H_
