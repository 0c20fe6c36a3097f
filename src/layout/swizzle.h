/*! XOR swizzles of integer indices. */
#ifndef TILELANG_LAYOUT_SWIZZLE_H_
#define TILELANG_LAYOUT_SWIZZLE_H_

#include <cstdint>
#include <string>

namespace tilelang::layout {

/*!
 * Swizzle<bits, base, shift>: XORs index bits [base + shift, base + shift + bits) into bits
 * [base, base + bits) (a negative shift XORs lower bits into higher ones). An involution.
 */
struct Swizzle {
  int64_t bits = 0;
  int64_t base = 0;
  int64_t shift = 0;

  bool operator==(const Swizzle&) const = default;
  bool IsIdentity() const { return bits == 0; }
  int64_t SourceMask() const {
    return ((int64_t{1} << bits) - 1) << (base + (shift > 0 ? shift : 0));
  }
  /*! Size of the aligned block that the swizzle permutes within. */
  int64_t Period() const {
    return IsIdentity() ? 1 : int64_t{1} << (base + bits + (shift < 0 ? -shift : shift));
  }
  int64_t operator()(int64_t index) const {
    if (bits == 0) return index;
    int64_t source = index & SourceMask();
    return index ^ (shift >= 0 ? source >> shift : source << -shift);
  }
  std::string ToString() const {
    return "Swizzle<" + std::to_string(bits) + "," + std::to_string(base) + "," +
           std::to_string(shift) + ">";
  }
};

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_SWIZZLE_H_
