// Memory of a GPU that a call allocates. It is a part of exported libraries, too.
#ifndef TILELANG_RUNTIME_DEVICE_MEMORY_H_
#define TILELANG_RUNTIME_DEVICE_MEMORY_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>

#include "runtime/driver.h"

namespace tilelang::driver {

// For callers whose library lends no allocator of its own to tvm-ffi (CuPy, JAX, C++).
struct GpuAllocator {
  void AllocData(DLTensor* tensor) {
    DeviceGuard guard(tensor->device.device_id);
    uint64_t address = 0;
    size_t bytes = std::max<size_t>(1, tvm::ffi::GetDataSize(*tensor));
    Check(Get().allocate(&address, bytes), "allocating memory of a call (cuMemAlloc)");
    tensor->data = reinterpret_cast<void*>(address);
  }
  // Waits for the work of the device that may still use the memory.
  void FreeData(DLTensor* tensor) {
    DeviceGuard guard(tensor->device.device_id);
    Get().free(reinterpret_cast<uint64_t>(tensor->data));
  }
};

inline bool HasLentAllocator() { return TVMFFIEnvGetDLPackManagedTensorAllocator() != nullptr; }

// Allocates by the allocator that the caller's library lends to tvm-ffi, such as torch's, whose
// memory is in the order of its stream; otherwise allocates by the driver.
inline tvm::ffi::Tensor Allocate(tvm::ffi::ShapeView shape, DLDataType dtype, DLDevice device) {
  if (!HasLentAllocator()) {
    return tvm::ffi::Tensor::FromNDAlloc(GpuAllocator(), shape, dtype, device);
  }
  return tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, shape, dtype, device);
}

}  // namespace tilelang::driver

#endif  // TILELANG_RUNTIME_DEVICE_MEMORY_H_
