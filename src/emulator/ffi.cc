// The only file of the emulator that sees tvm-ffi: it exposes the emulator to Python.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

namespace tilelang::emulator {

using tvm::ffi::Array;
using tvm::ffi::String;

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def(
      "tl.emulator.Architectures", []() { return Array<String>{"sm_80", "sm_90a", "sm_100a"}; });
}

}  // namespace tilelang::emulator
