#include "runtime/tensor_map.h"

#include <tvm/ffi/error.h>

#include <algorithm>

namespace tilelang::runtime {

namespace {

// Returns whether elements have 4 or 6 bits, and become units of 16 bytes in shared memory.
bool IsPadded(ir::DType dtype) { return dtype.bits < 8; }

// CUtensorMapDataType. Types of 8 bits, floating point or not, move as bytes.
int DriverDType(ir::DType dtype) {
  if (dtype.bits == 8) return 0;
  if (IsPadded(dtype)) return dtype.bits == 4 ? 14 : 15;
  if (dtype == ir::dtypes::kUInt16 || dtype == ir::dtypes::kInt16) return 1;
  if (dtype == ir::dtypes::kUInt32) return 2;
  if (dtype == ir::dtypes::kInt32) return 3;
  if (dtype == ir::dtypes::kUInt64) return 4;
  if (dtype == ir::dtypes::kInt64) return 5;
  if (dtype == ir::dtypes::kFloat16) return 6;
  if (dtype == ir::dtypes::kFloat32) return 7;
  if (dtype == ir::dtypes::kFloat64) return 8;
  if (dtype == ir::dtypes::kBFloat16) return 9;
  TVM_FFI_THROW(InternalError) << "no tensor map of dtype " << ir::ToString(dtype);
  TVM_FFI_UNREACHABLE();
}

std::vector<HostExpr> CompileAll(const ffi::Array<ir::Expr>& exprs, VarSlots* slots) {
  std::vector<HostExpr> programs;
  for (const ir::Expr& expr : exprs) programs.emplace_back(expr, slots);
  return programs;
}

// The address in the map of a tensor that is None: a page that no allocation has. All coordinates
// are within the extents, so each copy fails.
constexpr uintptr_t kAbsentAddress = 4096;
constexpr uint64_t kAbsentExtent = uint64_t{1} << 31;

[[noreturn]] void Fail(const TensorMapSpec& spec, const std::string& problem) {
  throw ffi::Error(
      "tilelang.ArgumentError",
      "argument '" + std::string(spec->buffer->name) + "' cannot be copied by TMA: " + problem, "");
}

}  // namespace

TensorMapPlan::TensorMapPlan(const TensorMapSpec& spec, const Signature& signature, VarSlots* slots)
    : spec_(spec),
      tensor_index_(signature.TensorIndex(spec->buffer)),
      driver_dtype_(DriverDType(spec->dtype)),
      dims_(CompileAll(spec->dims, slots)),
      strides_(CompileAll(spec->strides, slots)),
      box_(spec->box.begin(), spec->box.end()),
      element_strides_(spec->element_strides.begin(), spec->element_strides.end()) {
  if (element_strides_.empty()) element_strides_.assign(dims_.size(), 1);
  TVM_FFI_ICHECK(dims_.size() >= 1 && dims_.size() <= 5 && strides_.size() == dims_.size() - 1 &&
                 box_.size() == dims_.size() && element_strides_.size() == dims_.size())
      << "malformed tensor map of '" << spec->buffer->name << "'";
}

TensorMapPlan::Geometry TensorMapPlan::Evaluate(const CallState& state) const {
  Geometry geometry;
  if (state.tensors[tensor_index_] == nullptr) {
    // None, which the kernel does not use: what is copied all the same has no memory.
    std::fill(geometry.dims, geometry.dims + dims_.size(), kAbsentExtent);
    std::fill(geometry.strides, geometry.strides + strides_.size(), kAbsentAddress);
    geometry.address = reinterpret_cast<void*>(kAbsentAddress);
    return geometry;
  }
  for (size_t i = 0; i < dims_.size(); ++i) {
    geometry.dims[i] = dims_[i].Evaluate(state.values.data());
  }
  if (std::find(geometry.dims, geometry.dims + dims_.size(), 0) != geometry.dims + dims_.size()) {
    std::fill(geometry.dims, geometry.dims + dims_.size(), 1);
    std::fill(geometry.strides, geometry.strides + strides_.size(), 16);
    geometry.address = nullptr;
    return geometry;
  }
  const DLTensor& tensor = *state.tensors[tensor_index_];
  geometry.address = static_cast<char*>(tensor.data) + tensor.byte_offset;
  uintptr_t align = IsPadded(spec_->dtype) ? 32 : 16;
  if (reinterpret_cast<uintptr_t>(geometry.address) % align != 0) {
    Fail(spec_, "its address is not a multiple of " + std::to_string(align) + " bytes");
  }
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (geometry.dims[i] > (uint64_t{1} << 32)) {
      Fail(spec_, "an extent of " + std::to_string(geometry.dims[i]) + " is over 2^32");
    }
  }
  for (size_t i = 0; i < strides_.size(); ++i) {
    geometry.strides[i] = strides_[i].Evaluate(state.values.data());
    if (geometry.strides[i] % align != 0) {
      Fail(spec_, "a stride of " + std::to_string(geometry.strides[i]) +
                      " bytes is not a multiple of " + std::to_string(align));
    }
  }
  return geometry;
}

void TensorMapPlan::Encode(const CallState& state, driver::Stream stream,
                           driver::TensorMap* map) const {
  Geometry geometry = Evaluate(state);
  if (geometry.address == nullptr) {
    int device = state.tensors[tensor_index_]->device.device_id;
    geometry.address = reinterpret_cast<void*>(driver::ZeroElement(device, stream));
  }
  driver::Result result = driver::Get().encode_tiled(
      map, driver_dtype_, static_cast<uint32_t>(dims_.size()), geometry.address, geometry.dims,
      geometry.strides, box_.data(), element_strides_.data(), static_cast<int>(spec_->interleave),
      static_cast<int>(spec_->swizzle), static_cast<int>(spec_->l2_promotion),
      static_cast<int>(spec_->oob_fill));
  if (result != 0) Fail(spec_, "the driver refuses its extents, strides or box");
}

ffi::Map<ffi::String, ffi::Any> TensorMapPlan::Describe(const CallState& state) const {
  Geometry geometry = Evaluate(state);
  auto numbers = [](const auto* values, size_t count) {
    ffi::Array<int64_t> array;
    for (size_t i = 0; i < count; ++i) array.push_back(static_cast<int64_t>(values[i]));
    return array;
  };
  return {
      {"address", reinterpret_cast<int64_t>(geometry.address)},
      {"absent", state.tensors[tensor_index_] == nullptr},
      {"data_type", driver_dtype_},
      {"dtype", ffi::String(ir::ToString(spec_->dtype))},
      {"element_bytes", ir::Bytes(spec_->dtype)},
      {"dims", numbers(geometry.dims, dims_.size())},
      {"strides", numbers(geometry.strides, strides_.size())},
      {"box", numbers(box_.data(), box_.size())},
      {"element_strides", numbers(element_strides_.data(), element_strides_.size())},
      {"swizzle", spec_->swizzle},
      {"interleave", spec_->interleave},
      {"l2_promotion", spec_->l2_promotion},
      {"oob_fill", spec_->oob_fill},
  };
}

}  // namespace tilelang::runtime
