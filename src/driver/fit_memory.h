// Changes of programs whose tiles do not fit the memories of a block. What they take is known only
// after all passes, so the driver compiles again until the kernel fits.
#ifndef TILELANG_DRIVER_FIT_MEMORY_H_
#define TILELANG_DRIVER_FIT_MEMORY_H_

#include <optional>

#include "ir/function.h"

namespace tilelang::driver {

// For shared memory: returns the function with one stage less in the loops that have the most, at
// least two; nothing if there is none.
std::optional<ir::Func> WithFewerStages(const ir::Func& func);

// Remarks on the loops that WithFewerStages has changed.
void RemarkFewerStages(const ir::Func& func);

// Returns the function with an attribute by which its loops, and the tiles of its GEMMs, stay as
// the program says: other tiles and stages may need more memory for the tiles that the program has
// beside the operands.
ir::Func WithOwnTiles(const ir::Func& func);
bool HasOwnTiles(const ir::Func& func);
// Adds a remark if the function has it.
void RemarkOwnTiles(const ir::Func& func);

// For shared memory: returns the function with tiles of roles that share bytes
// (memory::kRolesShare); nothing if this was tried, or if the program has no barriers by which
// roles could wait for each other.
std::optional<ir::Func> WithRolesSharing(const ir::Func& func);
bool HasRolesSharing(const ir::Func& func);
// The function after the sharing was found to be wrong.
ir::Func WithoutRolesSharing(const ir::Func& func);

// For shared memory: returns the function with slices of the results of gemms that the program
// waits for itself (epilogue::kSlicesOwnWaits); nothing if this was tried, or if there are no such
// gemms.
std::optional<ir::Func> WithSlicedResults(const ir::Func& func);

// For tensor memory: returns the function with one more accumulator in registers, the widest first;
// nothing if all fragments that gemms accumulate in are there.
std::optional<ir::Func> WithAccumulatorInRegisters(const ir::Func& func);

}  // namespace tilelang::driver

#endif  // TILELANG_DRIVER_FIT_MEMORY_H_
