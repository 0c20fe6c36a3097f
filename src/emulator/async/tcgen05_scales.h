// Scale factors of tcgen05.mma in tensor memory.
//
// Byte k of row r (of A, or column of B) lies in lane r % 32, column r / 32, byte k % 4 of the
// cell, and in the same place of the other quarters of 32 lanes; four bytes along K are a group,
// and the next group follows after the columns of all rows. The instruction takes `count` bytes of
// each row from byte `id` on. Of a pair with M = 128 the lanes of D below 64 belong to the first
// half of the columns of B, and so do their scale factors; the others to the second. Source:
// CUTLASS, tmem_sf_frg.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_SCALES_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_SCALES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulator/async/tcgen05_descriptor.h"
#include "emulator/async/tcgen05_layout.h"
#include "emulator/memory/tensor_memory.h"

namespace tilelang::emulator {

// The scale factors of one operand of one instruction, in one CTA.
struct ScaleOperand {
  uint32_t address = 0;  // tensor-memory address of the first group
  int rows = 0;          // of each half
  int halves = 1;        // 2: each has two quarters of the lanes
  int id = 0;            // the first byte
  int count = 0;         // of each row

  int group_columns() const { return (rows + 127) / 128 * 4; }
  int groups() const { return (id + count + 3) / 4; }
};

// EmulatorError "tmem" when an address does not name lane 0.
ScaleOperand ScalesOfA(const InstructionDescriptor& instruction, uint32_t address);
ScaleOperand ScalesOfB(const InstructionDescriptor& instruction, uint32_t address);

// The cells that hold them.
std::vector<TmemRegion> ScaleCells(const ScaleOperand& operand);

// Calls put(row, j, place) for factor j of each row or column, over both halves. False when the
// quarters of lanes do not agree.
bool VisitScales(const ScaleOperand& operand, TensorMemory& tensor,
                 const std::function<void(int row, int j, const uint8_t* place)>& put);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_SCALES_H_
