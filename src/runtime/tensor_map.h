// Tensor maps (CUtensorMap) computed from the tensors of a call.
#ifndef TILELANG_RUNTIME_TENSOR_MAP_H_
#define TILELANG_RUNTIME_TENSOR_MAP_H_

#include <vector>

#include "runtime/arguments.h"
#include "runtime/driver.h"

namespace tilelang::runtime {

// A TensorMapSpec with its expressions compiled.
class TensorMapPlan {
 public:
  TensorMapPlan(const TensorMapSpec& spec, const Signature& signature, VarSlots* slots);

  // Encodes the map for the driver. Throws tilelang.ArgumentError when the tensor breaks a rule of
  // the copy engine (16-byte address and strides, extents of at most 2^32). The map of a tensor
  // without elements has one, which is zero in the order of the stream: maps have no extents of 0.
  void Encode(const CallState& state, driver::Stream stream, driver::TensorMap* map) const;

  // The map as plain values for the emulator: address, dtype, element_bytes, dims, strides, box,
  // element_strides, swizzle, interleave, l2_promotion, oob_fill (as in TensorMapSpec); absent: the
  // tensor is None; data_type: that of the driver. The address is 0 where the tensor has no
  // elements: whoever launches puts a zero there.
  ffi::Map<ffi::String, ffi::Any> Describe(const CallState& state) const;

 private:
  struct Geometry {
    uint64_t dims[5];
    uint64_t strides[4];
    void* address;  // null if the tensor has no elements; then the map has one
  };
  Geometry Evaluate(const CallState& state) const;

  TensorMapSpec spec_;
  int tensor_index_;
  int driver_dtype_;
  std::vector<HostExpr> dims_;
  std::vector<HostExpr> strides_;
  std::vector<uint32_t> box_;
  std::vector<uint32_t> element_strides_;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_TENSOR_MAP_H_
