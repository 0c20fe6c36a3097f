// A decoded kernel and the module it belongs to.
#ifndef TILELANG_EMULATOR_CORE_KERNEL_H_
#define TILELANG_EMULATOR_CORE_KERNEL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/base/error.h"
#include "emulator/base/types.h"
#include "emulator/core/device_function.h"
#include "emulator/core/op.h"
#include "emulator/isa/instruction_class.h"
#include "emulator/ptx/source_location.h"

namespace tilelang::emulator {

namespace isa {
struct Row;
}
class GlobalMemory;
class Module;
class Warp;

// Local memory addresses start here, parameters end before: a register that holds the address of
// a device function's parameter tells by its value that this lives in local memory.
constexpr uint32_t kLocalBase = 0x0100'0000;
constexpr uint32_t kConstBase = 0x100;

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kEnvreg1,  // high and low half of the address of the grid's workspace
  kEnvreg2,
  kZero,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kDynamicSmemSize,
  kTotalSmemSize,
  kAggregateSmemSize,
  kReservedSmemEnd,
  kReservedSmemCap,
  kSharedBase,         // the CTA's shared window: rank << 24
  kDynamicSharedBase,  // where its dynamic shared memory starts
};

// A slot that is filled when a warp starts.
struct SlotInit {
  uint32_t slot;
  uint8_t bits;  // 1 (predicate), 8, 16, 32, 64 or 128
  bool is_special = false;
  Special special = Special::kTidX;
  uint64_t value = 0;  // of constants; added to the value of specials
};

// An address operand [base + offset]. `slot` holds a 32-bit or 64-bit register (or constant).
struct AddressOperand {
  uint32_t slot = kNoSlot;
  bool wide = false;
  // The space of the variable that the address names; kGeneric when it starts from a register.
  // Parameters of device functions live in local memory.
  Space symbol_space = Space::kGeneric;
  int64_t offset = 0;
  inline uint64_t At(const Warp& warp, int lane) const;  // in machine.h
};

// Registers that an instruction reads and writes, for checks of what flows where and for its time.
struct OperandUse {
  std::vector<uint32_t> reads, writes;  // without predicates
  std::vector<uint32_t> predicate_reads, predicate_writes;
  // Registers of wgmma. The sanitizer follows them in another way than the accesses of threads.
  std::vector<uint32_t> engine_reads, engine_writes;
  // Accumulators of mma and wmma.mma: the register that is added to the products, for each register
  // of `writes`.
  std::vector<uint32_t> accumulators;
  std::vector<AddressOperand> addresses;
};

struct SourceLine {
  int ptx_line = 0;
  std::string spelling;
  ptx::SourceLocation location, exact_location;  // by .loc; see ptx::Instruction
  const isa::Row* row = nullptr;
  InstructionClass kind = InstructionClass::kControl;  // by the row and its modifiers
  OperandUse use;
  bool sees_unwritten = false;  // reads or writes what a register of Kernel::unwritten reaches
};

// A register that the kernel may read before it has written it; see unwritten_registers.h.
struct UnwrittenRegister {
  uint32_t slot = 0;
  int bits = 0;
  std::string name;
};

struct ParamInfo {
  std::string name;
  Type type = Type::kB8;
  uint32_t offset = 0, size = 0, align = 1;
  bool is_array = false;  // an aggregate: .b8 name[size]
};

// A use of something that is not implemented: the message, its first place, and how often it
// occurs.
struct UnsupportedUse {
  std::string what;
  Where where;
  uint64_t count = 0;
};

// A static variable in shared memory.
struct SharedVariable {
  std::string name;
  uint32_t address = 0;  // in the window
  uint32_t bytes = 0;
};

struct Kernel {
  std::string name;
  const Module* module = nullptr;
  std::vector<Op> code;
  std::vector<SourceLine> sources;  // by Op::source
  std::vector<uint32_t> slot_pool;
  std::vector<std::shared_ptr<void>> owned;
  std::vector<SlotInit> constants;  // the same in every warp
  std::vector<SlotInit> specials;   // depend on warp and CTA
  uint32_t file_bytes = 0;          // register file of a warp, constants and specials included
  std::vector<uint8_t> slot_bits;   // of the register at each multiple of 32; 1: a predicate
  std::vector<ParamInfo> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared = 0;
  std::vector<SharedVariable> shared_variables;
  bool uses_dynamic_shared = false;
  uint32_t dynamic_shared_align = 16;
  uint32_t dynamic_shared_offset = 0;    // in the window, after the static part
  uint32_t local_bytes = 0;              // of a thread, without its stack
  bool uses_stack = false;               // by calls that are not inlined, or alloca
  std::deque<DeviceFunction> functions;  // functions that are not inlined
  std::unordered_map<uint64_t, const DeviceFunction*> by_address;
  std::vector<int> reqntid, maxntid, reqnctapercluster;
  int minnctapersm = 0, maxnreg = 0;
  bool communicates = false;  // CTAs may exchange values through global memory
  bool couples = false;       // and act on what they get: no reduction whose result nobody reads
  bool launches_dependents = false;  // the next grid may start before this one has ended
  bool uses_grid_workspace = false;
  bool loads_tensor_memory = false;              // by tcgen05.ld
  bool cancels = false;                          // clusters take over others, which wait
  int cta_group = 0;                             // of its tcgen05 instructions; 0: has none
  std::vector<UnwrittenRegister> unwritten;      // at the start of a thread
  std::vector<UnsupportedUse> unsupported_uses;  // in the order of their first places
  std::optional<EmulatorError> unsupported;      // why it cannot be launched: all of them

  // Local memory of a thread.
  uint64_t thread_bytes() const { return uint64_t{local_bytes} + (uses_stack ? kStackBytes : 0); }
};

// One loaded PTX text. Global variables live in `memory`, constant banks here.
class Module {
 public:
  // `memory` must outlive the module.
  explicit Module(GlobalMemory& memory) : memory_(memory) {}
  ~Module();
  Module(const Module&) = delete;

  std::string target;
  int sms = 0;  // of the device that it is loaded for
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::map<int, std::string> files;
  std::vector<std::string> lines;
  std::vector<uint8_t> constant_bank;
  std::map<std::string, uint64_t> globals;  // name -> virtual address
  std::vector<uint64_t> owned_globals;      // to unmap
  std::vector<std::string> functions;       // device functions, by address

  const Kernel* Find(const std::string& name) const;
  // Text of the PTX line, names of the source files.
  Where WhereIs(int ptx_line, const ptx::SourceLocation& location,
                const ptx::SourceLocation& exact) const;

 private:
  GlobalMemory& memory_;
};

// Parses and decodes every kernel. `places` has the addresses of global variables that shall lie at
// a certain one. Throws EmulatorError.
std::shared_ptr<Module> LoadModule(const std::string& text, const std::string& device,
                                   GlobalMemory& memory,
                                   const std::map<std::string, uint64_t>& places = {});
// EmulatorError("target") unless a device, "sm_100a", runs what was made for the module's target.
void CheckRunsOn(const Module& module, const std::string& device);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_KERNEL_H_
