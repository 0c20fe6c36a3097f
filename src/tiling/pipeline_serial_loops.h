#ifndef TILELANG_TILING_PIPELINE_SERIAL_LOOPS_H_
#define TILELANG_TILING_PIPELINE_SERIAL_LOOPS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Pipelines serial loops that go over tiles of tensors, in launches without GEMMs:
//
//   for k in serial:                     for k in pipelined, 2 to 16 stages:
//     X[row, k] -> x                 ->    X[row, k] -> x
//     sum += x                             sum += x
//
// A serial iteration waits for its own loads, so memory is idle while an iteration computes, and an
// SM has few bytes under way. A block has as many stages as its SM needs to keep memory busy, but
// no more than half of the iterations.
//
// A loop qualifies if the body of the launch has it, if it has only copies, fills, reductions,
// parallel loops and assignments, runs four times or more, and if each iteration loads another part
// of a tensor that the launch does not write. Loops whose blocks have enough bytes of shared tiles
// under way on an SM stay: each stage takes shared memory from other blocks. Launches that pipeline
// a loop, name barriers, or tell threads apart stay as written.
//
// Loops that load shared tiles: on all targets. Loops that load registers: on targets with tcgen05.
// Others have less HBM bandwidth for each SM, and the timing model predicts that the registers of
// the next iteration cost more blocks of an SM than they bring. A remark says it, and the pass
// option tl.disable_load_early turns it off.
ir::Func PipelineSerialLoops(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PIPELINE_SERIAL_LOOPS_H_
