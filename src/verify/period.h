// The period of a launch: the number of iterations after which its loops repeat their behaviour.
#ifndef TILELANG_VERIFY_PERIOD_H_
#define TILELANG_VERIFY_PERIOD_H_

#include <cstdint>

#include "ir/stmt.h"

namespace tilelang::verify {

// A number of iterations after which rings are back at the same slot: a common multiple of twice
// the mbarriers of each ring (slot and parity), and of what remainders are taken by that decide on
// slots of tiles and on conditions. Remainders by which it would grow beyond some bound do not
// count.
int64_t PeriodOf(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_PERIOD_H_
