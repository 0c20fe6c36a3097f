// What every generated kernel includes: integer names, small floats, vectors.
//
// The device headers are lean on purpose: they need no CUDA header, so that NVRTC spends its time
// on the kernel. A kernel includes only those that it uses.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

#define TL_DEVICE __device__ __forceinline__

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)

namespace tl {

// a / b rounded toward minus infinity, and the remainder that has the sign of b.
template <typename T>
TL_DEVICE T floordiv(T a, T b) {
  T quotient = a / b;
  return quotient - T((a % b != 0) && ((a < 0) != (b < 0)));
}
template <typename T>
TL_DEVICE T floormod(T a, T b) {
  T remainder = a % b;
  return remainder + ((remainder != 0) && ((remainder < 0) != (b < 0)) ? b : T(0));
}

// Keeps a branch that few iterations take from being dissolved into selections. Stands at its
// begin.
TL_DEVICE void stay_branch() { asm volatile(""); }

// Returns the bits of `value` as another type of the same size.
template <typename To, typename From>
TL_DEVICE To reinterpret(From value) {
  static_assert(sizeof(To) == sizeof(From), "reinterpret keeps the size");
  return __builtin_bit_cast(To, value);
}

// Returns the address of shared memory in its own 32-bit window, which PTX's .shared forms take.
TL_DEVICE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace tl

#include "float16.h"
#include "vector.h"
