#include <tvm/ffi/string.h>

#include "registry/functions.h"

namespace tilelang {

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.Version", []() { return tvm::ffi::String("0.1.0"); });
}

}  // namespace tilelang
