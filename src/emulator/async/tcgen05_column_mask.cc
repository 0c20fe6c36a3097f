#include "emulator/async/tcgen05_column_mask.h"

#include <string>

#include "emulator/base/error.h"

namespace tilelang::emulator {
namespace {

constexpr int kGenerateBit = 39;

int Field(uint64_t bits, int low, int width) {
  return static_cast<int>(bits >> low & ((1u << width) - 1));
}

void CheckShift(int shift, const InstructionDescriptor& instruction) {
  const int limit = instruction.m == 32 ? 16 : 32;
  if (shift > limit) {
    throw EmulatorError("descriptor", "zero-column mask: shift " + std::to_string(shift) +
                                          " exceeds " + std::to_string(limit) +
                                          " with M=" + std::to_string(instruction.m));
  }
  if (shift > instruction.max_shift) {
    throw EmulatorError("descriptor",
                        "zero-column mask: shift " + std::to_string(shift) +
                            " exceeds the maximum of the instruction descriptor (bits 31:30), " +
                            std::to_string(instruction.max_shift));
  }
}

// Sub-mask `part` of `columns` columns: spans of zeros and of columns of B in turn.
void AppendPart(uint64_t bits, int part, int columns, std::vector<bool>* zero) {
  const int zeros = Field(bits, 40, 8) + 1, used = Field(bits, 48, 8) + 1;
  const int skipped = Field(bits, 8 * part, 8);
  bool in_zeros = Field(bits, 32 + part, 1);
  int left = (in_zeros ? zeros : used) - skipped;
  if (left <= 0) {
    throw EmulatorError("unsupported", "zero-column mask: start count " + std::to_string(skipped) +
                                           " skips the whole first span of sub-mask " +
                                           std::to_string(part));
  }
  for (int column = 0; column < columns; ++column, --left) {
    if (left == 0) {
      in_zeros = !in_zeros;
      left = in_zeros ? zeros : used;
    }
    zero->push_back(in_zeros);
  }
}

}  // namespace

ColumnMask ColumnMask::Parse(uint64_t bits, const InstructionDescriptor& instruction) {
  if (Field(bits, 36, 3) || Field(bits, 62, 2)) {
    throw EmulatorError("descriptor",
                        "zero-column mask: reserved bits (38:36, 63:62) must be zero");
  }
  ColumnMask mask;
  mask.shift = Field(bits, 56, 6);
  CheckShift(mask.shift, instruction);
  const int parts = 128 / instruction.m;
  const bool generate = Field(bits, kGenerateBit, 1);
  for (int part = 0; generate && part < parts; ++part) {
    AppendPart(bits, part, instruction.n / parts, &mask.zero);
  }
  mask.zero.resize(instruction.n, false);
  return mask;
}

}  // namespace tilelang::emulator
