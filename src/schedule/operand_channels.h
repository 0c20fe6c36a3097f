// Operands that threads compute while gemms by tcgen05 read others.
#ifndef TILELANG_SCHEDULE_OPERAND_CHANNELS_H_
#define TILELANG_SCHEDULE_OPERAND_CHANNELS_H_

#include <vector>

#include "schedule/channel.h"
#include "target/target.h"

namespace tilelang::schedule {

// Slots of an operand that threads store: of the iteration that gemms read, and of the next one.
inline constexpr int64_t kOperandSlots = 2;

// Returns the operands that threads store in pipelined loops of a launch, A to tensor memory and
// others to shared memory, as channels of two slots from the threads to the warp that issues the
// gemms:
//
//   threads   A of i+1 -> slot 1 │ A of i+2 -> slot 0 │ ...
//   tensor core   gemm of i      │ gemm of i+1        │ ...
//
// With one slot the threads and the tensor core wait for each other in every iteration.
//
// A loop has such channels if an operand is all that its threads and its gemms share, apart from
// `loaded`. Each iteration then overwrites the operand with one copy or T.Parallel loop of the
// whole tile, and only gemms after that read it: weights that threads dequantise, and pixels that
// they gather for a convolution. Attention, whose threads also read a result of the iteration, has
// none. The second slots take columns of tensor memory, of which the launch may have `columns`, and
// shared memory, as far as an SM still holds two blocks where it does without them. Operands in
// shared memory of gemms of pairs of CTAs have one slot. A remark names each operand that has two.
std::vector<Channel> FindOperandChannels(const ir::KernelLaunchNode* launch,
                                         const std::vector<Channel>& loaded, int64_t columns,
                                         const Target& target);

// Returns the columns of the second slots in tensor memory.
int64_t ColumnsOfSecondSlots(const std::vector<Channel>& operands);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_OPERAND_CHANNELS_H_
