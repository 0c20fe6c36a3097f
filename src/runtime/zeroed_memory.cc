#include "runtime/zeroed_memory.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>

namespace tilelang::runtime {

namespace {

size_t BytesOf(const ffi::Tensor& tensor) {
  return static_cast<size_t>(tensor.numel()) * (tensor.dtype().bits * tensor.dtype().lanes / 8);
}

bool IsCapturing(driver::Stream stream) {
  int status = 0;
  driver::Check(driver::Get().is_capturing(stream, &status), "cuStreamIsCapturing");
  return status != 0;
}

void Clear(const ffi::Tensor& tensor, driver::Stream stream) {
  auto address = reinterpret_cast<uint64_t>(tensor.data_ptr());
  driver::Check(driver::Get().memset(address, 0, BytesOf(tensor), stream),
                "setting a workspace to zero (cuMemsetD8Async)");
}

}  // namespace

ffi::Tensor ZeroedMemory::Take(size_t which, int64_t elements, DLDevice device,
                               driver::Stream stream, const Allocate& allocate) {
  if (device.device_type == kDLCPU) return OnHost(which, elements, allocate);
  if (IsCapturing(stream)) {
    ffi::Tensor tensor = allocate();
    Clear(tensor, stream);
    return tensor;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  auto& held = of_stream_[{device.device_id, stream, which}];
  if (!held || held->numel() < elements) {
    ffi::Tensor wanted = allocate();
    Clear(wanted, stream);
    held = wanted;
  }
  return *held;
}

ffi::Tensor ZeroedMemory::OnHost(size_t which, int64_t elements, const Allocate& allocate) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<ffi::Tensor>& free = free_[{which, elements}];
    if (!free.empty()) {
      ffi::Tensor tensor = free.back();
      free.pop_back();
      return tensor;
    }
  }
  ffi::Tensor tensor = allocate();
  std::memset(tensor.data_ptr(), 0, BytesOf(tensor));
  return tensor;
}

void ZeroedMemory::GiveBack(size_t which, const ffi::Tensor& tensor) {
  const char* bytes = static_cast<const char*>(tensor.data_ptr());
  if (std::any_of(bytes, bytes + BytesOf(tensor), [](char byte) { return byte != 0; })) return;
  std::lock_guard<std::mutex> lock(mutex_);
  free_[{which, tensor.numel()}].push_back(tensor);
}

}  // namespace tilelang::runtime
