"""Substitutes for headers of the host that CUDA C++ includes and NVRTC lacks."""

from __future__ import annotations

_STDINT = """#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef long ptrdiff_t;
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
"""
_CSTDINT = """#pragma once
#include <stdint.h>
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::intptr_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t;
using ::ptrdiff_t; using ::size_t;
}
"""
_FLOAT = """#pragma once
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
"""
#: The driver's header has a tensor map for device code; all else in it is for the host.
_CUDA = """#pragma once
#include <stdint.h>
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
"""
#: NVRTC itself has printf, assert, malloc, memcpy and the functions of mathematics.
_BUILT_IN = "#pragma once\n"
HEADERS = {
    "stdint.h": _STDINT, "cstdint": _CSTDINT, "float.h": _FLOAT, "cfloat": _FLOAT,
    "cuda.h": _CUDA, "cudaTypedefs.h": "#include <cuda.h>\n",
    "stddef.h": _STDINT, "cstddef": _CSTDINT,
    **dict.fromkeys(
        ("stdio.h", "cstdio", "stdlib.h", "cstdlib", "math.h", "cmath", "assert.h", "cassert",
         "string.h", "cstring", "iostream"), _BUILT_IN
    ),
}  # fmt: skip
