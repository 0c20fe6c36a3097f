#include "codegen/literals.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace tilelang {

namespace {

template <typename T>
std::string Shortest(T value) {
  char text[64];
  std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  std::string result(text, end.ptr);
  bool integral = result.find_first_of(".e") == std::string::npos;
  return integral ? result + ".0" : result;
}

}  // namespace

std::string IntLiteral(ir::DType dtype, int64_t value) {
  if (ir::IsBool(dtype)) return value != 0 ? "true" : "false";
  if (ir::IsUInt(dtype)) {
    std::string digits = std::to_string(static_cast<uint64_t>(value));
    if (dtype.bits == 64) return digits + "ull";
    return dtype.bits == 32 ? digits + "u" : ir::CudaName(dtype) + "(" + digits + ")";
  }
  if (dtype.bits == 64) {
    if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
    return std::to_string(value) + "ll";
  }
  if (value == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
  std::string digits = std::to_string(value);
  return dtype.bits == 32 ? digits : ir::CudaName(dtype) + "(" + digits + ")";
}

std::string FloatLiteral(ir::DType dtype, double value) {
  std::string type = ir::CudaName(dtype);
  // A conversion of infinity would saturate.
  if (dtype.code == kDLFloat8_e5m2 && std::isinf(value)) {
    return type + "::from_bits(" + (value > 0 ? "0x7c" : "0xfc") + ")";
  }
  if (dtype.bits <= 32 && !std::isnan(value)) {
    float narrow = static_cast<float>(value);
    if (std::isinf(narrow)) value = narrow;
  }
  if (std::isnan(value) || std::isinf(value)) {
    std::string name = std::isnan(value) ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY";
    return dtype == ir::dtypes::kFloat32 ? name : type + "(" + name + ")";
  }
  if (dtype == ir::dtypes::kFloat64) return Shortest(value);
  if (dtype == ir::dtypes::kFloat32) return Shortest(static_cast<float>(value)) + "f";
  if (dtype == ir::dtypes::kFloat16) return Shortest(value) + "_h";
  if (dtype == ir::dtypes::kBFloat16) return Shortest(value) + "_bf";
  return type + "(" + Shortest(static_cast<float>(value)) + "f)";
}

std::string StringLiteral(const std::string& text) {
  std::string result = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c == '\n') {
      result += "\\n";
    } else if (c < 32 || c == 127) {
      char octal[8];
      std::snprintf(octal, sizeof(octal), "\\%03o", c);
      result += octal;
    } else {
      result += static_cast<char>(c);
    }
  }
  return result + '"';
}

}  // namespace tilelang
