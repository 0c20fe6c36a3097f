// What Python asks of the GPUs of this machine, and copies to them.
#include <tvm/ffi/container/array.h>

#include "registry/functions.h"
#include "runtime/driver.h"

namespace tilelang::driver {

namespace {

// Between the device and memory that it reads, in the order of a stream.
void CopyAsync(int64_t to, int64_t from, int64_t bytes, int64_t stream, int device) {
  DeviceGuard guard(device);
  Check(Get().copy(to, from, bytes, reinterpret_cast<Stream>(stream)), "copying (cuMemcpyAsync)");
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions()
      .Add("tl.runtime.DeviceCount", DeviceCount)
      .Add("tl.runtime.DeviceCapability",
           [](int device) {
             auto [major, minor] = Capability(device);
             return tvm::ffi::Array<int64_t>{major, minor};
           })
      .Add("tl.runtime.DeviceMultiprocessors", Multiprocessors)
      .Add("tl.runtime.CopyAsync", CopyAsync);
}

}  // namespace tilelang::driver
