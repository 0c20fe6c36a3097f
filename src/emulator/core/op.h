// A decoded instruction: what the interpreter executes.
#ifndef TILELANG_EMULATOR_CORE_OP_H_
#define TILELANG_EMULATOR_CORE_OP_H_

#include <cstdint>
#include <string_view>

namespace tilelang::emulator {

class Warp;
struct Op;

// Tells the interpreter what to do after a handler returns.
enum class Flow : uint8_t {
  kNext,   // done, go on after it
  kJump,   // done, the handler has set the program counter (warp.JumpTo, warp.Diverge, exit)
  kWait,   // not done: call the same handler again later (it has called warp.WaitOn)
  kYield,  // done, but let other warps run first (a failed test in what may be a spin loop)
};

// Executes `op` for the lanes in `mask` (never 0; a subset of the running lanes: guard applied).
using Handler = Flow (*)(Warp& warp, const Op& op, uint32_t mask);

// Register operands are byte offsets ("slots") into the warp's register file, where each register
// is an array of 32 lane values of its own width (predicates: one 32-bit mask). Immediates,
// symbol addresses and special registers are slots too, filled when the warp starts; a handler
// cannot tell them from registers. Slots are multiples of 32; bit 0 of a predicate slot set
// means negated.
constexpr uint32_t kNoSlot = 0xFFFFFFFFu;

// Memory order of an instruction, for the sanitizer; 0: weak.
enum MemoryOrder : uint8_t {
  kStrong = 1,  // relaxed or stronger, volatile, atomic: does not race with its like
  kAcquire = 2,
  kRelease = 4,
  kGpuScope = 8,     // or sys; without it and kClusterScope: of the CTA
  kCollective = 16,  // one access of the whole warp (ldmatrix): no lane's in particular
  kRelaxed = 32,     // arrival or wait that orders other accesses only together with fences
  kWaits = 64,       // for others; no memory order, but where random schedules delay threads
  kClusterScope = 128,
};

// Returns the bit of a scope as PTX writes it. The default of most instructions, "", is the GPU.
constexpr uint8_t ScopeBit(std::string_view scope) {
  return scope == "cta" ? 0 : scope == "cluster" ? kClusterScope : kGpuScope;
}

struct Op {
  Handler handler = nullptr;
  int64_t immediate = 0;
  const void* extra = nullptr;      // owned by the kernel, see Decoder::MakeExtra
  const uint32_t* slots = nullptr;  // all operand slots in the order Decoder::Push saw them
  uint32_t a[5] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot};  // copy of the first five
  uint32_t guard = kNoSlot;
  uint32_t target = 0;  // branches
  uint16_t slot_count = 0;
  uint16_t flags = 0;   // family specific
  uint32_t source = 0;  // index into Kernel::sources
  uint8_t order = 0;    // MemoryOrder

  template <typename T>
  const T& Extra() const {
    return *static_cast<const T*>(extra);
  }
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_OP_H_
