#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

namespace tilelang {

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("tl.Version", []() { return tvm::ffi::String("0.1.0"); });
}

}  // namespace tilelang
