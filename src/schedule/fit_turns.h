// Blocks an SM and slots of tiles for kernels whose threads and tensor core take turns.
#ifndef TILELANG_SCHEDULE_FIT_TURNS_H_
#define TILELANG_SCHEDULE_FIT_TURNS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::schedule {

// In a loop with turns (schedule/turn_loop.h), as attention has it, the tensor core waits while
// threads compute, and threads wait while it multiplies. A second block on the SM fills both gaps.
//
//     block a   Q·K, P·V │ softmax  │ Q·K, P·V │ softmax  │ ...
//     block b   softmax  │ Q·K, P·V │ softmax  │ Q·K, P·V │ ...
//
// Chooses, for the pipelined loops of a launch on a target with tensor memory:
//
// * Two blocks an SM, if the grid has more blocks than the GPU has SMs. Each block then has half of
//   the columns of tensor memory, for which P takes the columns of S (overlay_operands.h), half of
//   the registers, and half of the shared memory. One slot of each tile is enough: while a block
//   has its turns, the tiles of its next iteration arrive.
// * As many slots of each tile as shared memory has room for beside that, at most kMostSlots. They
//   may be fewer than `num_stages` of the program, which is the number that it asks for.
//
// Launches that say how many blocks an SM holds (T.annotate_min_blocks_per_sm) keep that. Other
// loops keep their stages, and OverlayOperands sees all columns. With ir::kGivenStages no loop gets
// fewer or more slots than the program says, and with ir::kGivenBlocks no launch gets two blocks.
ir::Stmt FitTurns(const ir::Func& func, const ir::Stmt& launch, const Target& target);

// An attribute of pipelined loops (int): the stages that the program says, where FitStages has made
// them two.
inline constexpr const char* kStagesOfProgram = "stages_of_program";

// `num_stages=1` says that a loop may be pipelined and that one slot of each tile is meant to be in
// shared memory. It does not order loads after the computation. Loops with gemms by tcgen05 become
// loops of two stages where shared memory has room for a second slot of each tile. Of loops with
// turns, FitTurns chooses the slots.
ir::Func FitStages(const ir::Func& func, const Target& target);

// The launch with the program's own stages, for threads that load their tiles themselves.
ir::Stmt WithStagesOfProgram(const ir::Stmt& launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_FIT_TURNS_H_
