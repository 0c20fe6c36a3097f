// Computes what each instruction of a kernel costs a warp, from its PTX text and an architecture's
// figures.
#ifndef TILELANG_EMULATOR_TIMING_OP_COST_H_
#define TILELANG_EMULATOR_TIMING_OP_COST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/core/cycle.h"
#include "emulator/core/kernel.h"
#include "emulator/timing/figures.h"

namespace tilelang::emulator {

// The unit that executes an instruction.
enum class Unit : uint8_t {
  kNone,  // it needs no instruction of the machine
  kFma,
  kAlu,
  kAdd,       // of integers: the ALU or the multipliers
  kHalfRate,  // conversions, bit counts
  kMufu,
  kFp64,
  kShuffle,
  kVote,
  kShared,
  kMatrixMove,  // ldmatrix, stmatrix
  kGlobal,
  kGeneric,  // shared or global memory, by the address
  kMma,
  kWgmma,
  kTensorLoad,  // tcgen05.ld
  kTensorStore,
  kAsync,    // an operation for an engine; its handler describes it
  kCopy,     // cp.async
  kBarrier,  // named barriers, mbarriers, waits
  kFence,
  kBranch,
  kOther,
};
constexpr size_t kUnits = static_cast<size_t>(Unit::kOther) + 1;

// Registers that no instruction of a kernel has: always there; of no use to anybody.
constexpr uint32_t kUnwritten = 0, kUnread = 1;

struct alignas(64) OpCost {
  // The fields that are read for every instruction lie in one line of the cache.
  Unit unit = Unit::kAlu;
  bool plain = false;    // nothing that is named from `free` to `unrolled`, no early wait
  bool pure = false;     // depends on its operands alone: leaves a loop in which they stay
  bool waits = false;    // may have to wait: Done tells when it did not
  uint8_t slots = 1;     // instructions of the machine
  bool quick = false;    // plain arithmetic with no more operands than are named here
  bool renewed = false;  // some operand is written anew each time
  uint16_t read_count = 0, write_count = 0;  // registers
  int latency = 0;
  // The first registers of the instruction. The others begin at `more` in CostTable: first the
  // registers that it reads, then the registers that it writes.
  uint32_t more = 0;
  std::array<uint32_t, 3> reads = {kUnwritten, kUnwritten, kUnwritten};
  std::array<uint32_t, 1> writes = {kUnread};
  // The same as times: of its pipe, of its slots, from its start in the pipe to its results.
  Cycle takes, issue, done;

  double cycles = 0;        // of its pipe, all slots together
  int64_t flops = 0;        // of a lane; of the warp for matrix instructions
  bool free = false;        // ptxas makes no instruction of it
  bool in_order = false;    // no access to memory moves across it
  bool passable = false;    // arithmetic moves across it, though it is in order
  bool ends_block = false;  // a basic block
  bool waits_tensor_loads = false;
  // Waits for the cp.async of its warp: until they are complete; until the unit of loads has them.
  bool waits_copies = false, after_copies = false;
  bool after_mufu = false;  // an operand may be a result of the MUFU
  bool unrolled = false;    // once in some turns of its loop
  int32_t early_wait = -1;  // the wait for products that ptxas places before it
  bool load = false, store = false, atomic = false;
  bool constant = false;  // loads what no store changes: ld.global.nc
  bool past_l1 = false;   // loads from L2: ld.global.cg
  uint16_t bytes = 0;     // of a lane, of memory accesses; of a warp for tensor memory; 0: another
                          // load does it, too
  int32_t shift = 0;      // from the instruction's address to that of a load that does others
  const AddressOperand* address = nullptr;
  const AddressOperand* source = nullptr;  // of cp.async
};

// The costs of a kernel's instructions. Registers are numbered without gaps.
class CostTable {
 public:
  CostTable(const Kernel& kernel, const Figures& figures);

  const OpCost& operator[](uint32_t pc) const { return costs_[pc]; }
  size_t size() const { return costs_.size(); }
  // Return the registers beyond the ones in `cost`.
  std::span<const uint32_t> MoreReads(const OpCost& cost) const {
    return {more_.data() + cost.more, Beyond(cost.read_count, cost.reads)};
  }
  std::span<const uint32_t> MoreWrites(const OpCost& cost) const {
    return {more_.data() + cost.more + Beyond(cost.read_count, cost.reads),
            Beyond(cost.write_count, cost.writes)};
  }
  uint32_t registers() const { return registers_; }
  // Some instruction is for the tensor core.
  bool multiplies() const { return multiplies_; }

 private:
  template <typename Registers>
  static size_t Beyond(size_t count, const Registers& registers) {
    return count - std::min(count, registers.size());
  }
  uint32_t Number(uint32_t slot);
  void Connect(const Kernel& kernel);
  void FindBlocks(const Kernel& kernel);
  void FindRenewed();
  void Complete();

  std::vector<OpCost> costs_;
  std::vector<uint32_t> more_;     // registers
  std::vector<uint32_t> numbers_;  // by slot / 32, plus one
  uint32_t registers_ = 2;
  bool multiplies_ = false;
};

// Opcode and modifiers of an instruction.
class Spelling {
 public:
  explicit Spelling(std::string_view text);
  std::string_view opcode() const { return parts_.front(); }
  bool Is(std::string_view opcode) const { return parts_.front() == opcode; }
  bool Has(std::string_view modifier) const;
  bool HasAny(std::initializer_list<std::string_view> modifiers) const;
  // The modifier that begins so, or "".
  std::string_view Prefixed(std::string_view prefix) const;
  std::string_view part(size_t i) const { return i < parts_.size() ? parts_[i] : ""; }
  size_t size() const { return parts_.size(); }
  // Bytes that a lane of a load or store moves.
  int AccessBytes() const;
  int ElementBits() const;  // of the last type

 private:
  std::vector<std::string_view> parts_;
};

// Cost of one instruction, its neighbours left out of account.
OpCost CostOf(const SourceLine& source, const Op& op, const Figures& figures);
// Marks the guards of elected lanes that ptxas drops.
void DropElections(const Kernel& kernel, std::vector<OpCost>* costs);
// Marks what ptxas joins with a neighbour, or drops.
void FoldInstructions(const Kernel& kernel, const Figures& figures, std::vector<OpCost>* costs);
// Marks what is left once in some turns of loops that ptxas unrolls.
void MarkUnrolledLoops(const Kernel& kernel, std::vector<OpCost>* costs);
// Notes where warps wait for the products of their warpgroup before the program says so.
void MoveWaitsUp(const Kernel& kernel, std::vector<OpCost>* costs);
// Lets one load of shared memory do what its neighbours load.
void MergeSharedLoads(const Kernel& kernel, std::vector<OpCost>* costs);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_OP_COST_H_
