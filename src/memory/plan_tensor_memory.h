#ifndef TILELANG_MEMORY_PLAN_TENSOR_MEMORY_H_
#define TILELANG_MEMORY_PLAN_TENSOR_MEMORY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::memory {

// Gives every buffer in tensor memory its first column, in one allocation for the kernel. Buffers
// that are never in use at the same time share columns, and so do tiles of 64 rows in the lower and
// in the upper lanes. Buffers whose uses have no order in time do not: buffers of gemms that the
// kernel waits for itself, and buffers of different threads, selected by branches on the thread
// index. Raises ResourceError, listing every buffer, if 512 columns are not enough.
//
// Results: KernelLaunch.attrs["tmem_columns"] : Map<Buffer, int>, ["tmem_allocation"] : int, the
// columns to allocate (a power of two, at least 32).
ir::Func PlanTensorMemory(const ir::Func& func, const Target& target);

}  // namespace tilelang::memory

#endif  // TILELANG_MEMORY_PLAN_TENSOR_MEMORY_H_
