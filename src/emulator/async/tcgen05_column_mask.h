// The zero-column mask descriptor of tcgen05.mma.ws.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_COLUMN_MASK_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_COLUMN_MASK_H_

#include <cstdint>
#include <vector>

#include "emulator/async/tcgen05_descriptor.h"

namespace tilelang::emulator {

// Says which columns of B an instruction takes: column j + shift for column j of D, or zeros.
struct ColumnMask {
  int shift = 0;
  std::vector<bool> zero;  // for each column of D

  // EmulatorError "descriptor" for reserved bits and shifts beyond the instruction's; "unsupported"
  // for a start count that skips the whole first span, of which the PTX ISA says nothing.
  //
  // The table of the PTX ISA exchanges the meaning of the skip and use spans; its examples, which
  // this follows, count zero columns by the skip span.
  static ColumnMask Parse(uint64_t bits, const InstructionDescriptor& instruction);
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_COLUMN_MASK_H_
