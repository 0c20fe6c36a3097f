#include "ir/dtype.h"

namespace tilelang::ir {

std::string ToString(DType t) {
  if (t == dtypes::kVoid) return "void";
  if (t == dtypes::kHandle) return "handle";
  // The type of a tensor that was passed; the language has no complex numbers.
  if (t.code == kDLComplex) return "complex" + std::to_string(t.bits);
  return std::string(tvm::ffi::DLDataTypeToString(t));
}

std::string CudaName(DType t) {
  if (t == dtypes::kVoid) return "void";
  if (t == dtypes::kHandle) return "void*";
  if (IsBool(t)) return "bool";
  if (t == dtypes::kFloat32) return "float";
  if (t == dtypes::kFloat64) return "double";
  if (t == dtypes::kFloat16) return "half_t";
  if (t == dtypes::kBFloat16) return "bfloat16_t";
  if (t == dtypes::kFloat8E4M3) return "fp8_e4_t";
  if (t == dtypes::kFloat8E5M2) return "fp8_e5_t";
  return std::string(IsUInt(t) ? "u" : "") + "int" + std::to_string(t.bits) + "_t";
}

}  // namespace tilelang::ir
