// Writes the statements of an epilogue slice by slice.
#ifndef TILELANG_EPILOGUE_EPILOGUE_SLICES_H_
#define TILELANG_EPILOGUE_EPILOGUE_SLICES_H_

#include <vector>

#include "epilogue/epilogue_region.h"

namespace tilelang::epilogue {

struct SliceOptions {
  int64_t slots = 2;  // of what is staged in shared memory
  // Says whether reductions along the columns collect the running values of a slice, and one
  // reduction at the end combines them. Otherwise each slice has a reduction, which costs a barrier
  // if warps share the columns.
  bool gathers = false;
};

struct SlicedEpilogue {
  std::vector<ir::Stmt> hoisted;  // before the gemms: loads that do not need them
  std::vector<ir::Stmt> stmts;    // in place of the statements of the region
};

// Returns the statements of `region`: the statements before the slices, then slice after slice,
// then the statements after them.
//
//   T.copy(c[:, 0:64], c_0); c_0 = f(c_0); T.copy(c_0, s_0); T.copy(s_0, D[.., 0])
//   T.copy(c[:, 64:128], c_1); c_1 = f(c_1); T.copy(c_1, s_1); T.copy(s_1, D[.., 64])  ...
//
// Slice number p stages through slot p modulo `slots` of a tile in shared memory. Loads that run
// ahead stand one slice earlier, and use as many slots as there are besides the slot of the current
// slice. The loads of the first slices stand before the gemms.
SlicedEpilogue WriteSlices(const EpilogueRegion& region, const SliceOptions& options);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_EPILOGUE_SLICES_H_
