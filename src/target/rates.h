// The rates of a GPU in a clock, for choices that compare programs before they are scheduled.
#ifndef TILELANG_TARGET_RATES_H_
#define TILELANG_TARGET_RATES_H_

#include "target/target.h"

namespace tilelang {

// Rates of the data-centre or desktop part that `TargetObj::gpu_name` names. Bytes and operations
// are per clock.
struct Rates {
  double tensor_flops;  // operations of a multiprocessor's tensor cores, 16-bit operands
  double shared_bytes;  // that its tensor cores and threads read from shared memory
  double l2_bytes;      // that L2 gives each multiprocessor while all load
  double l2_alone;      // that it gives one that loads alone
  double hbm_bytes;     // of all multiprocessors
  double starts;        // blocks that the GPU starts
  double clock;         // Hz
  // Beyond `power_free` of work, each share of it costs `power_slope` of the clock. Work is the
  // share of the tensor cores' time, and `power_l2` for a TB/s of L2. A slope of 0: not known.
  double power_free = 1;
  double power_slope = 0;
  double power_l2 = 0;
};

// Rates of an architecture.
Rates RatesOf(const Target& target);

}  // namespace tilelang

#endif  // TILELANG_TARGET_RATES_H_
