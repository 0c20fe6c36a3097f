// The calls that the threads of a warp are in, and the memory of their stacks.
#ifndef TILELANG_EMULATOR_CORE_CALL_STACK_H_
#define TILELANG_EMULATOR_CORE_CALL_STACK_H_

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/core/device_function.h"
#include "emulator/core/machine.h"

namespace tilelang::emulator {

// The calls of a warp. A thread has its own stack and its own return addresses. Registers of a
// function have one place in the warp's file, so that instructions find them like registers of the
// kernel: a call of a function that may be running already saves the lane's values, and the return
// restores them. Local variables lie in the frame, since their addresses are passed on. Slots that
// hold such addresses are registers which the call sets.
class CallStack {
 public:
  explicit CallStack(Warp& warp) : warp_(warp) { Reset(); }
  void Reset();

  // The lane begins the function and will go on at `return_pc`.
  void Enter(int lane, const CallSite& site, const DeviceFunction& function, uint32_t return_pc);
  // The lane leaves the function that it is in; returns where it goes on.
  uint32_t Leave(int lane);
  size_t Depth(int lane) const { return lanes_[lane].calls.size(); }

  // Returns the end of the used part of a lane's stack, as an address in local memory.
  uint32_t top(int lane) const { return lanes_[lane].top; }
  // Memory until the function returns or the stack is set back; its address.
  uint32_t Allocate(int lane, uint64_t bytes, uint32_t align);
  // Sets the top to what it was before allocations of the function that runs.
  void SetTop(int lane, uint64_t top);
  // Returns a digest of where the lane's calls return and of what they saved.
  uint64_t Digest(int lane) const;

 private:
  struct Call {
    const CallSite* site = nullptr;
    const DeviceFunction* function = nullptr;
    uint32_t return_pc = 0;
    uint32_t frame = 0;  // its address
    uint32_t top = 0;    // before the call
  };
  struct Lane {
    std::vector<Call> calls;
    std::vector<uint8_t> saved;  // registers
    uint32_t top = 0;
  };
  using Values = std::vector<uint8_t>;

  uint32_t First() const;  // address of the stack
  // Raises the top; returns the address.
  uint32_t Grow(int lane, uint64_t bytes, uint32_t align);
  uint8_t* At(int lane, uint32_t address);
  uint8_t* Memory(int lane, const ValuePlace& place);
  void Read(int lane, FunctionRegister reg, Values* out) const;
  const uint8_t* Write(int lane, FunctionRegister reg, const uint8_t* bytes);
  void Read(int lane, const ValuePlace& place, const uint8_t* memory, Values* out) const;
  const uint8_t* Write(int lane, const ValuePlace& place, uint8_t* memory, const uint8_t* bytes);

  Warp& warp_;
  std::array<Lane, kLanes> lanes_;
  Values passed_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_CALL_STACK_H_
