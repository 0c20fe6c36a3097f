// The places of the bytes of a matrix's lines in ldmatrix, stmatrix and movmatrix.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_MATRIX_LINE_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_MATRIX_LINE_H_

#include <cstdint>

namespace tilelang::emulator {

// Says how the bytes of a matrix lie in registers.
enum class LineFragment : uint8_t {
  kRows,         // m8n8 and m8n16: four consecutive bytes of a line
  kColumns,      // m8n8.trans of 16-bit elements
  kByteColumns,  // m16n16.trans of bytes, two registers
  kByteStore,    // stmatrix m16n8.trans: each line is a column of 16 bytes
};

struct LinePlace {
  int line, byte;
};

// Returns where byte `i` of thread `lane` in `part`, a register of a matrix, lies in memory.
constexpr LinePlace LinePlaceOf(LineFragment fragment, int part, int lane, int i) {
  const int group = lane / 4, member = lane % 4;
  switch (fragment) {
    case LineFragment::kRows:
      return {group, 4 * member + i};
    case LineFragment::kColumns:
      return {2 * member + i / 2, 2 * group + i % 2};
    case LineFragment::kByteColumns:
      return {4 * member + i, group + 8 * part};
    case LineFragment::kByteStore:
      return {2 * member + i % 2, group + 8 * (i / 2)};
  }
  return {0, 0};
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_MATRIX_LINE_H_
