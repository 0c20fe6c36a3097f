// Combining hashes.
#ifndef TILELANG_ARITH_MIX_HASH_H_
#define TILELANG_ARITH_MIX_HASH_H_

#include <cstddef>

namespace tilelang::arith {

// A hash of `h` and `value`, in this order.
inline size_t Mix(size_t h, size_t value) { return (h ^ value) * 0x9E3779B97F4A7C15u + (h >> 31); }

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_MIX_HASH_H_
