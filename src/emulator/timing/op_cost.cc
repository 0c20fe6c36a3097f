#include "emulator/timing/op_cost.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "emulator/core/control_handlers.h"
#include "emulator/isa/row.h"

namespace tilelang::emulator {
namespace {

using isa::Cost;

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

OpCost Pipe(Unit unit, double cycles, int latency, int slots = 1) {
  OpCost cost;
  cost.unit = unit;
  cost.cycles = cycles * slots;
  cost.latency = latency * slots;
  cost.slots = static_cast<uint8_t>(slots);
  cost.pure = true;
  return cost;
}

OpCost Free() {
  OpCost cost;
  cost.unit = Unit::kNone;
  cost.free = cost.pure = true;
  return cost;
}

OpCost Control(Unit unit, int latency) {
  OpCost cost;
  cost.unit = unit;
  cost.latency = latency;
  cost.in_order = true;
  return cost;
}

OpCost Fp64Cost(const Figures& f, int slots, int flops) {
  OpCost cost = Pipe(Unit::kFp64, f.fp64_cycles, f.fp64_latency, slots);
  cost.flops = flops;
  return cost;
}

// Returns the cost of sums and products with `flops` operations for one element.
OpCost FloatCost(const Spelling& s, const Figures& f, int flops) {
  if (s.Has("f64")) return Fp64Cost(f, 1, flops);
  const bool packed = s.HasAny({"f32x2", "f16x2", "bf16x2"});
  const bool halves = s.HasAny({"f16", "f16x2", "bf16", "bf16x2"});
  OpCost cost = Pipe(Unit::kFma, f.fma_cycles * (s.Has("f32x2") ? 2 : 1),
                     halves ? f.half_latency : f.fma_latency);
  cost.flops = flops * (packed ? 2 : 1);
  return cost;
}

// Returns the cost of ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, and div of f32.
OpCost SpecialCost(const Spelling& s, const Figures& f) {
  int slots = 1;  // beside the one of the MUFU
  if (s.Is("div")) slots = s.Has("approx") ? 2 : s.Has("full") ? 4 : 9;
  if (s.HasAny({"rn", "rz", "rm", "rp"}) && !s.Is("div")) slots = 9;
  if (IsOneOf(s.opcode(), {"ex2", "lg2", "rsqrt", "rcp", "sqrt"}) && s.Has("approx")) {
    // Subnormal operands are scaled, unless they count as zeros.
    slots = s.HasAny({"ftz", "f16", "f16x2", "bf16", "bf16x2"}) ? 0 : 2;
  }
  if (s.Is("tanh")) slots = 0;
  // A correctly rounded result takes a test (FCHK) on the same unit, and a branch to the code for
  // rare operands.
  const bool exact = s.HasAny({"rn", "rz", "rm", "rp"});
  const int count = exact || s.HasAny({"f16x2", "bf16x2"}) ? 2 : 1;
  OpCost cost = Pipe(Unit::kMufu, f.mufu_cycles * count, f.mufu_latency);
  cost.slots = static_cast<uint8_t>(count + slots + (exact ? 3 : 0));
  cost.latency += (exact ? slots - 2 : slots) * f.fma_latency;
  cost.ends_block = exact;
  cost.flops = 1;
  return cost;
}

OpCost ConversionCost(const Spelling& s, const Figures& f) {
  const Type from = ParseType(s.part(s.size() - 1));
  const Type to = ParseType(s.part(s.size() - 2));
  if (s.HasAny({"f16x2", "bf16x2", "f16", "bf16", "f32", "tf32"}) && IsFloat(from) && IsFloat(to)) {
    if (s.Has("f64")) return Pipe(Unit::kHalfRate, f.mufu_cycles, f.half_rate_latency);
    // Widening is an addition to zero.
    const bool widens = TypeBits(from) == 16;
    return Pipe(widens ? Unit::kFma : Unit::kAlu, f.alu_cycles, f.alu_latency + (widens ? 1 : 0));
  }
  const bool integers = !IsFloat(from) && !IsFloat(to);
  const bool small = TypeBits(from) <= 16 || TypeBits(to) <= 16;
  if (integers && s.Prefixed("e").empty()) {
    if (small || (IsSigned(from) && TypeBits(to) == 64)) {
      return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency);
    }
    return Free();
  }
  if (!IsFloat(to)) return Pipe(Unit::kMufu, f.mufu_cycles, f.mufu_latency);
  if (!IsFloat(from)) return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency);
  return Pipe(Unit::kHalfRate, f.half_rate_cycles, f.half_rate_latency);
}

// Returns the number of machine instructions of a division. A division by a constant is a
// multiplication.
int DivisionSlots(const Spelling& s, const SourceLine& source) {
  if (source.use.reads.size() < 2) return 4;
  return s.ElementBits() == 64 ? 70 : 18;
}

OpCost DivisionCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  if (s.Has("f32")) return SpecialCost(s, f);
  if (s.Has("f64")) return Fp64Cost(f, 12, 1);
  OpCost cost = Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, DivisionSlots(s, source));
  // Two conversions and a reciprocal are among the instructions.
  if (cost.slots > 4) cost.latency += 3 * (f.mufu_latency - f.alu_latency);
  return cost;
}

int Words(const Spelling& s) { return s.ElementBits() == 64 ? 2 : 1; }

OpCost AluCost(const Spelling& s, const Figures& f) {
  if (s.Has("f64")) return Fp64Cost(f, 1, 1);
  return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, Words(s));
}

OpCost SumCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  if (source.kind == InstructionClass::kFloat) return FloatCost(s, f, 1);
  return Pipe(Unit::kAdd, f.alu_cycles, f.alu_latency, Words(s));
}

// Returns the cost of a product with `flops` operations for one element.
OpCost ProductCost(const Spelling& s, const SourceLine& source, const Figures& f, int flops) {
  if (source.kind == InstructionClass::kFloat) return FloatCost(s, f, flops);
  // IMAD runs on the multipliers of the FMA pipe.
  const int slots = s.Has("wide") ? 1 : Words(s) == 2 ? 4 : s.Has("hi") ? 2 : 1;
  return Pipe(Unit::kFma, f.alu_cycles, f.alu_latency, slots);
}

OpCost ComparisonCost(const Spelling& s, const Figures& f) {
  if (s.Has("f64")) return Pipe(Unit::kFp64, f.fp64_cycles, f.predicate_latency);
  return Pipe(Unit::kAlu, f.alu_cycles, f.predicate_latency / Words(s), Words(s));
}

OpCost MoveCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  const bool packs = s.Has("b32") && source.use.reads.size() >= 2;
  return packs ? Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency) : Free();
}

Unit MemoryUnit(InstructionClass kind) {
  if (kind == InstructionClass::kSharedMemory) return Unit::kShared;
  return kind == InstructionClass::kGenericMemory ? Unit::kGeneric : Unit::kGlobal;
}

OpCost MemoryCost(const Spelling& s, const SourceLine& source) {
  if (source.kind == InstructionClass::kConstantMemory) return Free();
  const Cost key = source.row->cost;
  OpCost cost;
  cost.unit = MemoryUnit(source.kind);
  cost.atomic = key == Cost::kAtomic || key == Cost::kReduction;
  cost.load = key == Cost::kLoad || key == Cost::kMatrixLoad || key == Cost::kAtomic;
  cost.store = key == Cost::kStore || key == Cost::kMatrixStore || cost.atomic;
  cost.in_order = s.HasAny({"acquire", "release", "acq_rel", "volatile", "relaxed"});
  cost.constant = s.Has("nc");
  cost.past_l1 = cost.in_order || s.HasAny({"cg", "cv"});
  cost.bytes = static_cast<uint16_t>(s.AccessBytes());
  if (!source.use.addresses.empty()) cost.address = &source.use.addresses[0];
  return cost;
}

OpCost MatrixMoveCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  OpCost cost = MemoryCost(s, source);
  cost.unit = Unit::kMatrixMove;
  const std::string_view count = s.Prefixed("x");
  cost.bytes = static_cast<uint16_t>(16 * (count == "x4" ? 4 : count == "x2" ? 2 : 1));
  cost.latency = f.matrix_latency;
  return cost;
}

int NumberAfter(std::string_view shape, char letter) {
  const size_t at = shape.find(letter);
  int value = 0;
  if (at != std::string_view::npos) {
    std::from_chars(shape.data() + at + 1, shape.data() + shape.size(), value);
  }
  return value;
}

int OperandBits(const Spelling& s) {
  if (s.HasAny({"tf32"})) return 32;
  if (s.HasAny({"e4m3", "e5m2", "s8", "u8"})) return 8;
  return s.HasAny({"s4", "u4", "e2m1"}) ? 4 : 16;
}

// Returns the cost of mma.sync. The warp's sub-core has a quarter of the tensor core.
OpCost MmaCost(const Spelling& s, const Figures& f) {
  const std::string_view shape = s.Prefixed("m");
  const int m = NumberAfter(shape, 'm'), n = NumberAfter(shape, 'n'), k = NumberAfter(shape, 'k');
  OpCost cost;
  cost.unit = Unit::kMma;
  cost.flops = int64_t{2} * m * n * k;
  const double rate = s.Has("f64") ? f.mma_fp64_flops : f.mma_flops * 16 / OperandBits(s);
  cost.cycles = static_cast<double>(cost.flops) / (rate / 4);
  cost.latency = f.mma_latency;
  return cost;
}

// Returns the cost of issuing a wgmma. The warp issues the next one after some cycles, later with A
// in registers, because the issue reads them.
OpCost WgmmaCost(const Spelling& s, const SourceLine& source) {
  const int eighth = NumberAfter(s.Prefixed("m64"), 'n') / 8;
  const bool from_registers = !source.use.engine_reads.empty();
  return Control(Unit::kWgmma, std::max(1, from_registers ? eighth : eighth - 4));
}

// Returns the cost of tcgen05.ld or tcgen05.st.
OpCost TensorMoveCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  const bool loads = source.row->cost == Cost::kTensorLoad;
  OpCost cost;
  cost.unit = loads ? Unit::kTensorLoad : Unit::kTensorStore;
  const auto& registers = loads ? source.use.writes : source.use.reads;
  double columns = static_cast<double>(registers.size() - (loads ? 0 : 1));
  // Shapes with half of the lanes use half of the width of the port, or less.
  if (s.HasAny({"16x64b", "16x128b"})) columns *= 2;
  if (s.Has("16x256b")) columns *= 4;
  if (!s.Prefixed("pack").empty() || !s.Prefixed("unpack").empty()) columns *= 2;
  cost.cycles = columns / f.tmem_columns;
  cost.latency = loads ? f.tmem_load_latency : f.tmem_store_latency;
  return cost;
}

OpCost TensorLoadWaitCost() {
  OpCost cost = Control(Unit::kBarrier, 1);
  cost.waits_tensor_loads = true;
  return cost;
}

OpCost ThreadCopyCost(const SourceLine& source, const Op& op, const Figures& f) {
  OpCost cost;
  cost.unit = Unit::kCopy;
  cost.latency = f.copy_issue;
  cost.in_order = true;
  cost.bytes = static_cast<uint16_t>(op.immediate);
  cost.address = &source.use.addresses[0];
  cost.source = &source.use.addresses[1];
  return cost;
}

OpCost MbarrierCost(const Figures& f) {
  OpCost cost = Control(Unit::kBarrier, f.mbarrier_latency);
  cost.passable = true;
  return cost;
}

OpCost FenceCost(const Spelling& s, const Figures& f) {
  // ptxas emits a MEMBAR for most fences, at the scope of the GPU or of the CTA.
  const bool wide = s.HasAny({"gl", "sys", "gpu"}) || (s.part(2) == "async" && s.size() == 3);
  OpCost cost = Control(Unit::kFence, wide ? f.gpu_fence_latency : f.fence_latency);
  cost.waits_copies = wide;
  cost.after_copies = !wide && !s.HasAny({"mbarrier_init", "global"});
  return cost;
}

OpCost BranchCost(const Figures& f) {
  OpCost cost = Control(Unit::kBranch, f.branch_latency);
  cost.ends_block = true;
  return cost;
}

// Returns the cost of an instruction whose results depend on other lanes.
OpCost VoteCost(Unit unit, double cycles, int latency) {
  OpCost cost = Pipe(unit, cycles, latency);
  cost.pure = false;
  return cost;
}

[[noreturn]] void Untimed(const SourceLine& source, const std::string& why) {
  throw EmulatorError("unsupported", "'" + source.spelling + "' cannot be timed: " + why);
}

OpCost ArithmeticCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  switch (source.row->cost) {
    case Cost::kAlu:
      return AluCost(s, f);
    case Cost::kSum:
      return SumCost(s, source, f);
    case Cost::kProduct:
      return ProductCost(s, source, f, 1);
    case Cost::kMultiplyAdd:
      return ProductCost(s, source, f, 2);
    case Cost::kDivision:
      return DivisionCost(s, source, f);
    case Cost::kBitCount:
      return Pipe(Unit::kMufu, f.mufu_cycles, f.mufu_latency, Words(s));
    case Cost::kSpecial:
      return SpecialCost(s, f);
    case Cost::kComparison:
      return ComparisonCost(s, f);
    case Cost::kConversion:
      return ConversionCost(s, f);
    case Cost::kMove:
      return MoveCost(s, source, f);
    default:
      return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, Words(s));  // selections
  }
}

// Returns the cost of instructions whose other modifiers do not matter.
OpCost FixedCost(const SourceLine& source, const Figures& f) {
  switch (source.row->cost) {
    case Cost::kFree:
      return Free();
    case Cost::kCacheHint:
      return source.kind == InstructionClass::kConstantMemory ? Free() : Control(Unit::kOther, 1);
    case Cost::kShuffle:
      return Pipe(Unit::kShuffle, 1, f.shuffle_latency);
    case Cost::kVote:
      return VoteCost(Unit::kVote, f.alu_cycles, f.vote_latency);
    case Cost::kWarpReduction:
      return VoteCost(Unit::kMufu, f.mufu_cycles, 44);
    case Cost::kWarpBarrier:
      return Control(Unit::kVote, 2);
    case Cost::kBulkCopy:
      return Control(Unit::kAsync, f.tma_hold);
    case Cost::kAsync:
      return Control(Unit::kAsync, 1);
    case Cost::kWait:
      return Control(Unit::kBarrier, 1);
    case Cost::kTensorLoadWait:
      return TensorLoadWaitCost();
    case Cost::kEngineFence:
      return Control(Unit::kFence, 1);
    case Cost::kTensorAlloc:
      return Control(Unit::kBarrier, f.tmem_alloc);
    case Cost::kTensorDealloc:
      return Control(Unit::kFence, 8);
    case Cost::kBarrier:
      return Control(Unit::kBarrier, f.barrier_latency);
    case Cost::kMbarrier:
      return MbarrierCost(f);
    case Cost::kMbarrierWait:
      return Control(Unit::kBarrier, f.mbarrier_wake);
    case Cost::kBranch:
      return BranchCost(f);
    case Cost::kWmma:
      Untimed(source, "what ptxas makes of wmma is not known; mma.sync and ldmatrix can");
    default:
      return Control(Unit::kOther, 1);
  }
}

OpCost RowCost(const Spelling& s, const SourceLine& source, const Op& op, const Figures& f) {
  switch (source.row->cost) {
    case Cost::kAlu:
    case Cost::kSum:
    case Cost::kProduct:
    case Cost::kMultiplyAdd:
    case Cost::kDivision:
    case Cost::kBitCount:
    case Cost::kSpecial:
    case Cost::kComparison:
    case Cost::kConversion:
    case Cost::kMove:
    case Cost::kSelect:
      return ArithmeticCost(s, source, f);
    case Cost::kLoad:
    case Cost::kStore:
    case Cost::kAtomic:
    case Cost::kReduction:
      return MemoryCost(s, source);
    case Cost::kMatrixLoad:
    case Cost::kMatrixStore:
      return MatrixMoveCost(s, source, f);
    case Cost::kThreadCopy:
      return ThreadCopyCost(source, op, f);
    case Cost::kMma:
      return MmaCost(s, f);
    case Cost::kWgmma:
      return WgmmaCost(s, source);
    case Cost::kTensorLoad:
    case Cost::kTensorStore:
      return TensorMoveCost(s, source, f);
    case Cost::kFence:
      return FenceCost(s, f);
    default:
      return FixedCost(source, f);
  }
}

}  // namespace

OpCost CostOf(const SourceLine& source, const Op& op, const Figures& figures) {
  const Spelling spelling(source.spelling);
  if (spelling.HasAny({"sp", "sp::ordered_metadata"})) {
    Untimed(source, "the rate of sparse matrix instructions is not known; dense ones can");
  }
  if (op.handler == CallHandler()) {
    throw EmulatorError("unsupported",
                        "calls that are not inlined cannot be timed: the time of a frame is not "
                        "known");
  }
  OpCost cost = RowCost(spelling, source, op, figures);
  cost.waits = cost.unit == Unit::kBarrier || cost.unit == Unit::kWgmma ||
               cost.unit == Unit::kFence || cost.unit == Unit::kTensorLoad ||
               cost.unit == Unit::kTensorStore || cost.unit == Unit::kMatrixMove ||
               cost.unit == Unit::kMma || cost.unit == Unit::kShuffle || cost.unit == Unit::kVote;
  return cost;
}

uint32_t CostTable::Number(uint32_t slot) {
  uint32_t& number = numbers_[slot / 32];
  if (number == 0) number = ++registers_;
  return number - 1;
}

void CostTable::Connect(const Kernel& kernel) {
  for (size_t pc = 0; pc < costs_.size(); ++pc) {
    const OperandUse& use = kernel.sources[kernel.code[pc].source].use;
    OpCost& cost = costs_[pc];
    cost.more = static_cast<uint32_t>(more_.size());
    const auto add = [&](uint32_t slot, auto& registers, uint16_t& count) {
      const uint32_t number = Number(slot);
      if (count < registers.size()) {
        registers[count] = number;
      } else {
        more_.push_back(number);
      }
      ++count;
    };
    const auto reads = [&](uint32_t slot) { add(slot, cost.reads, cost.read_count); };
    const auto writes = [&](uint32_t slot) { add(slot, cost.writes, cost.write_count); };
    for (const uint32_t slot : use.reads) reads(slot);
    for (const uint32_t slot : use.engine_reads) reads(slot);
    for (const uint32_t slot : use.predicate_reads) reads(slot & ~1u);
    if (kernel.code[pc].guard != kNoSlot) reads(kernel.code[pc].guard & ~1u);
    for (const uint32_t slot : use.writes) writes(slot);
    for (const uint32_t slot : use.engine_writes) writes(slot);
    for (const uint32_t slot : use.predicate_writes) writes(slot & ~1u);
  }
}

void CostTable::FindBlocks(const Kernel& kernel) {
  for (uint32_t pc = 0; pc < costs_.size(); ++pc) {
    const uint32_t target = kernel.code[pc].target;
    // The instruction before a label ends a block, unless ptxas makes no jump to it.
    const bool jumps = target != 0 && target < costs_.size() && !costs_[pc].free;
    if (jumps) costs_[target - 1].ends_block = true;
  }
}

// Marks each instruction with an operand from an earlier instruction of its block that always
// executes. Other instructions may be left out if their operands are the same as the last time.
void CostTable::FindRenewed() {
  std::vector<bool> special(registers_), written(registers_);
  const auto mark = [&](const OpCost& cost, std::vector<bool>& registers) {
    for (size_t i = 0; i < cost.writes.size(); ++i) registers[cost.writes[i]] = true;
    for (const uint32_t reg : MoreWrites(cost)) registers[reg] = true;
  };
  const auto reads_any = [&](const OpCost& cost, const std::vector<bool>& registers) {
    const auto has = [&](uint32_t reg) { return registers[reg]; };
    return std::any_of(cost.reads.begin(), cost.reads.end(), has) ||
           std::any_of(MoreReads(cost).begin(), MoreReads(cost).end(), has);
  };
  for (const OpCost& cost : costs_) {
    if (cost.unit == Unit::kMufu) mark(cost, special);
  }
  for (OpCost& cost : costs_) {
    cost.after_mufu = reads_any(cost, special);
    cost.renewed = !cost.pure || cost.free || reads_any(cost, written);
    if (cost.renewed) mark(cost, written);
    if (cost.ends_block) std::fill(written.begin(), written.end(), false);
  }
}

// Computes the fields that follow from other fields.
void CostTable::Complete() {
  for (OpCost& cost : costs_) {
    const bool holds = cost.waits || cost.waits_copies || cost.after_copies || cost.early_wait >= 0;
    const bool moves = cost.in_order || cost.ends_block;
    cost.plain = !cost.free && !cost.unrolled && !holds && !moves;
    cost.takes = cost.cycles;
    cost.issue = cost.slots;
    cost.done = std::max<double>(cost.latency, cost.cycles);
    const bool arithmetic = cost.unit == Unit::kFma || cost.unit == Unit::kAlu ||
                            cost.unit == Unit::kAdd || cost.unit == Unit::kHalfRate ||
                            cost.unit == Unit::kFp64;
    const bool few = cost.read_count <= cost.reads.size() && cost.write_count <= cost.writes.size();
    cost.quick = cost.plain && arithmetic && few && !cost.after_mufu;
  }
}

CostTable::CostTable(const Kernel& kernel, const Figures& figures)
    : numbers_(kernel.file_bytes / 32 + 2) {
  for (const Op& op : kernel.code) {
    const SourceLine& source = kernel.sources[op.source];
    costs_.push_back(CostOf(source, op, figures));
    multiplies_ |= costs_.back().unit == Unit::kMma || costs_.back().unit == Unit::kWgmma ||
                   source.spelling.starts_with("tcgen05.mma");
  }
  Connect(kernel);
  DropElections(kernel, &costs_);
  FindBlocks(kernel);
  FoldInstructions(kernel, figures, &costs_);
  MarkUnrolledLoops(kernel, &costs_);
  MoveWaitsUp(kernel, &costs_);
  MergeSharedLoads(kernel, &costs_);
  FindRenewed();
  Complete();
}

}  // namespace tilelang::emulator
