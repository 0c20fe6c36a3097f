// Device functions that a kernel calls instead of inlining them, and the calls.
#ifndef TILELANG_EMULATOR_CORE_DEVICE_FUNCTION_H_
#define TILELANG_EMULATOR_CORE_DEVICE_FUNCTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/core/op.h"

namespace tilelang::emulator {

// Addresses of functions lie here: no memory is at them. Each function has so many bytes.
constexpr uint64_t kCodeWindow = 0xB'0000'0000;
constexpr uint64_t kFunctionBytes = 16;
// Bytes of a thread's stack, for the frames of functions that are called and for alloca.
constexpr uint32_t kStackBytes = 64 << 10;
constexpr uint32_t kFrameAlign = 16;

// A register of a function: its slot and its width.
struct FunctionRegister {
  uint32_t slot = kNoSlot;
  uint32_t bits = 0;  // 1: a predicate
};

// A 64-bit or 32-bit slot that holds the address of a byte of the function's frame.
struct FrameAddress {
  FunctionRegister slot;
  uint32_t offset = 0;
};

// The place of a parameter or a result. In a function it is a register, or a place in the frame. In
// a call it is a register, or the local memory whose address a 64-bit slot holds.
struct ValuePlace {
  bool in_register = false;
  uint32_t slot = kNoSlot;
  uint32_t offset = 0;  // in the frame
  uint64_t bits = 0;
};

struct DeviceFunction {
  std::string name;
  uint32_t entry = 0;        // program counter
  uint32_t frame_bytes = 0;  // parameters, results and local variables
  // A thread may call the function while it executes it, so a call saves the registers.
  bool reentrant = false;
  std::vector<FunctionRegister> registers;  // the ones of `addresses`, too
  std::vector<FrameAddress> addresses;
  std::vector<ValuePlace> parameters, results;
};

struct CallSite {
  const DeviceFunction* function = nullptr;  // nullptr: the lanes' addresses tell
  uint32_t address = kNoSlot;                // 64-bit register
  std::vector<ValuePlace> arguments, results;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_DEVICE_FUNCTION_H_
