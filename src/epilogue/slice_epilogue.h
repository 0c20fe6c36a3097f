#ifndef TILELANG_EPILOGUE_SLICE_EPILOGUE_H_
#define TILELANG_EPILOGUE_SLICE_EPILOGUE_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::epilogue {

// An attribute of launches: what T.annotate_epilogue asks for, (columns, slots) of an accumulator;
// -1 leaves the number to the compiler.
inline constexpr const char* kEpilogueChoices = "epilogue_choices";

// An attribute (true) of functions: also gemms that the program waits for itself have slices. It is
// for kernels that need the memory: nothing else of their epilogues changes.
inline constexpr const char* kSlicesOwnWaits = "slices_own_waits";

// Divides epilogues (epilogue_region.h) into slices of columns on targets whose accumulators have
// many columns per thread (wgmma and tcgen05). A thread then needs the registers of a slice and not
// of the tile, and staging tiles in shared memory shrink to slots of a slice. Runs before
// accumulators move to tensor memory, on programs in which each group of threads has its own
// fragments. A remark says why an epilogue is not divided.
ir::Func SliceEpilogue(const ir::Func& func, const Target& target);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_SLICE_EPILOGUE_H_
