#include "registry/functions.h"

#include <tvm/ffi/error.h>

namespace tilelang::registry {

void RefuseArgument(const char* function, int index, const std::string& expected,
                    const std::string& given) {
  TVM_FFI_THROW(TypeError) << "Mismatched type on argument #" << index << " when calling: `"
                           << function << "`. Expected `" << expected << "` but got `" << given
                           << "`";
}

void Register(const char* name, int num_arguments, Call call, Erased function) {
  auto checked = [name = std::string(name), num_arguments, call, function](
                     const tvm::ffi::AnyView* arguments, int32_t given, tvm::ffi::Any* result) {
    if (given != num_arguments) {
      TVM_FFI_THROW(TypeError) << "Mismatched number of arguments when calling: `" << name
                               << "`. Expected " << num_arguments << " but got " << given
                               << " arguments";
    }
    call(function, name.c_str(), arguments, result);
  };
  tvm::ffi::Function::SetGlobal(name, tvm::ffi::Function::FromPacked(std::move(checked)));
}

}  // namespace tilelang::registry
