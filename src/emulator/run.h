// Runs a launch: hands the clusters of its grid to threads of the host.
#ifndef TILELANG_EMULATOR_RUN_H_
#define TILELANG_EMULATOR_RUN_H_

#include "emulator/core/launch.h"

namespace tilelang::emulator {

// Runs to completion on options.threads host threads (blocking); on one if CTAs exchange values
// through global memory. The error, if any, is in launch.error: that of the lowest CTA that failed,
// or why the host could not go on. Throws nothing.
void Run(Launch& launch);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_RUN_H_
