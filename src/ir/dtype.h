// Element types. A type is a DLPack data type with one lane.
#ifndef TILELANG_IR_DTYPE_H_
#define TILELANG_IR_DTYPE_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/dtype.h>

#include <string>

namespace tilelang::ir {

using DType = DLDataType;

namespace dtypes {
inline constexpr DType kBool{kDLBool, 8, 1};
inline constexpr DType kInt8{kDLInt, 8, 1};
inline constexpr DType kInt16{kDLInt, 16, 1};
inline constexpr DType kInt32{kDLInt, 32, 1};
inline constexpr DType kInt64{kDLInt, 64, 1};
inline constexpr DType kUInt8{kDLUInt, 8, 1};
inline constexpr DType kUInt16{kDLUInt, 16, 1};
inline constexpr DType kUInt32{kDLUInt, 32, 1};
inline constexpr DType kUInt64{kDLUInt, 64, 1};
inline constexpr DType kFloat16{kDLFloat, 16, 1};
inline constexpr DType kBFloat16{kDLBfloat, 16, 1};
inline constexpr DType kFloat32{kDLFloat, 32, 1};
inline constexpr DType kFloat64{kDLFloat, 64, 1};
inline constexpr DType kFloat8E4M3{kDLFloat8_e4m3fn, 8, 1};
inline constexpr DType kFloat8E5M2{kDLFloat8_e5m2, 8, 1};
// The type of addresses, descriptors passed by address, and strings.
inline constexpr DType kHandle{kDLOpaqueHandle, 64, 1};
// The type of calls that return nothing.
inline constexpr DType kVoid{kDLOpaqueHandle, 0, 0};
}  // namespace dtypes

inline bool IsBool(DType t) { return t.code == kDLBool; }
inline bool IsInt(DType t) { return t.code == kDLInt; }
inline bool IsUInt(DType t) { return t.code == kDLUInt; }
// Signed, unsigned or bool.
inline bool IsIntegral(DType t) { return IsInt(t) || IsUInt(t) || IsBool(t); }
inline bool IsFloat8(DType t) { return t.code == kDLFloat8_e4m3fn || t.code == kDLFloat8_e5m2; }
// Any floating-point type, 8 to 64 bits.
inline bool IsFloat(DType t) { return t.code == kDLFloat || t.code == kDLBfloat || IsFloat8(t); }
// Storage size of an element in bytes.
inline int Bytes(DType t) { return (t.bits + 7) / 8; }

// "float32", "bfloat16", "float8_e4m3fn", ...: the names TileLang uses.
std::string ToString(DType t);
// The C++ type in generated code: "float", "bfloat16_t" of the device headers, ...
std::string CudaName(DType t);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_DTYPE_H_
