// Marks of bytes in shared memory that hold the value of a register that nothing has written.
//
// Shared memory has a mark for each byte: 0 if nothing has written it, 1 if it was written. From
// kOfRegister on, what was written is the value of such a register, and the mark tells which one.
#ifndef TILELANG_EMULATOR_CORE_UNWRITTEN_MARKS_H_
#define TILELANG_EMULATOR_CORE_UNWRITTEN_MARKS_H_

#include <cstddef>
#include <cstdint>

namespace tilelang::emulator {

class Warp;

constexpr uint8_t kOfRegister = 2;

// Returns the mark of the register with this number in Kernel::unwritten. Registers share marks
// when there are more of them than marks.
constexpr uint8_t RegisterMark(size_t number) {
  return static_cast<uint8_t>(kOfRegister + number % (256 - kOfRegister));
}

// The sanitizer's room defines these.
//
// A lane's register gets what shared memory holds of the register of this mark.
void LoadsUnwritten(Warp& warp, uint32_t slot, int lane, uint8_t mark);
// The mark of the register that nothing has written and whose value a lane's register holds; 0: of
// none.
uint8_t UnwrittenMark(Warp& warp, uint32_t slot, int lane);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_UNWRITTEN_MARKS_H_
