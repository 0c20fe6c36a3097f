// Exposes the encoding of tensor maps to Python.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/string.h>

#include "emulator/async/tensor_map.h"
#include "emulator/base/error.h"
#include "registry/functions.h"

namespace tilelang::emulator {
namespace {

namespace ffi = tvm::ffi;

// Reads fields one after the other.
class FieldReader {
 public:
  explicit FieldReader(const ffi::Array<int64_t>& values) : values_(values) {}
  template <typename T>
  T Next() {
    return static_cast<T>(values_[static_cast<int64_t>(next_++)]);
  }
  template <typename T, size_t n>
  void Fill(std::array<T, n>* target) {
    for (T& value : *target) value = Next<T>();
  }

 private:
  ffi::Array<int64_t> values_;
  size_t next_ = 0;
};

// fields: type, rank, address, interleave, swizzle, NaN fill, im2col, pixels, then five dims,
// strides, box extents and element strides, then three lower and upper corners.
ffi::Bytes EncodeMap(const ffi::Array<int64_t>& fields) {
  FieldReader reader(fields);
  TensorMap map;
  map.type = reader.Next<TensorType>();
  map.rank = reader.Next<int>();
  map.address = reader.Next<uint64_t>();
  map.interleave = reader.Next<Interleave>();
  map.swizzle = reader.Next<Swizzle>();
  map.fill_nan = reader.Next<int>() != 0;
  map.im2col = reader.Next<int>() != 0;
  map.pixels = reader.Next<uint32_t>();
  reader.Fill(&map.dims);
  reader.Fill(&map.strides);
  reader.Fill(&map.box);
  reader.Fill(&map.element_strides);
  reader.Fill(&map.lower);
  reader.Fill(&map.upper);
  try {
    map.Validate();
  } catch (const EmulatorError& error) {
    TVM_FFI_THROW(ValueError) << error.what();
  }
  char bytes[TensorMap::kBytes];
  map.Encode(reinterpret_cast<uint8_t*>(bytes));
  return ffi::Bytes(bytes, sizeof bytes);
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() { registry::Functions().Add("tl.emulator.EncodeTensorMap", EncodeMap); }

}  // namespace tilelang::emulator
