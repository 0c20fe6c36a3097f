// What Python asks of the GPUs of this machine.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/reflection/registry.h>

#include "runtime/driver.h"

namespace tilelang::driver {

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("tl.runtime.DeviceCount", DeviceCount)
      .def("tl.runtime.DeviceCapability", [](int device) {
        auto [major, minor] = Capability(device);
        return tvm::ffi::Array<int64_t>{major, minor};
      });
}

}  // namespace tilelang::driver
