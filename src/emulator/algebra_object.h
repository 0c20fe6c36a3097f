// The algebraic mode as an object of Python.
#ifndef TILELANG_EMULATOR_ALGEBRA_OBJECT_H_
#define TILELANG_EMULATOR_ALGEBRA_OBJECT_H_

#include <tvm/ffi/object.h>

#include <memory>

#include "emulator/algebra/state.h"

namespace tilelang::emulator {

class AlgebraObj : public tvm::ffi::Object {
 public:
  const std::shared_ptr<AlgebraState> state = std::make_shared<AlgebraState>();
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.emulator.Algebra", AlgebraObj, tvm::ffi::Object);
};

class AlgebraRef : public tvm::ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(AlgebraRef, tvm::ffi::ObjectRef, AlgebraObj);
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_OBJECT_H_
