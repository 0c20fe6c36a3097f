// Registers the questions that Python asks about the GPUs of this machine.
#include <tvm/ffi/container/array.h>

#include "registry/functions.h"
#include "runtime/driver.h"

namespace tilelang::driver {

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions()
      .Add("tl.runtime.DeviceCount", DeviceCount)
      .Add("tl.runtime.DeviceCapability",
           [](int device) {
             auto [major, minor] = Capability(device);
             return tvm::ffi::Array<int64_t>{major, minor};
           })
      .Add("tl.runtime.DeviceMultiprocessors", Multiprocessors);
}

}  // namespace tilelang::driver
