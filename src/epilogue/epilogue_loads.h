#ifndef TILELANG_EPILOGUE_EPILOGUE_LOADS_H_
#define TILELANG_EPILOGUE_EPILOGUE_LOADS_H_

#include <functional>

#include "epilogue/epilogue_region.h"

namespace tilelang::epilogue {

// Takes loads of tensors that `is_constant` out of the loops of a region: none of them depends on
// the gemms. Values of rows are loaded once, before the gemms, to registers; values of columns
// once, to shared memory, since a thread has most columns; values of elements are loaded slice by
// slice, one slice ahead, as are copies from such tensors.
void HoistLoads(EpilogueRegion* region, const std::function<bool(const ir::Buffer&)>& is_constant);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_EPILOGUE_LOADS_H_
