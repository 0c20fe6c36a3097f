#include "emulator/timing/op_cost.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <set>

#include "emulator/core/control.h"

namespace tilelang::emulator {
namespace {

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

OpCost FloatCost(const Spelling& s, const Figures& f) {
  const bool packed = s.HasAny({"f32x2", "f16x2", "bf16x2"});
  if (s.Has("f64")) {
    OpCost cost = Pipe(Unit::kFp64, f.fp64_cycles, f.fp64_latency, s.Is("div") ? 12 : 1);
    cost.flops = s.Is("fma") ? 2 : 1;
    return cost;
  }
  if (IsOneOf(s.opcode(), {"min", "max", "abs", "neg", "copysign", "testp"})) {
    const int slots = s.Has("f32x2") ? 2 : 1;
    return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, slots);
  }
  const bool halves = s.HasAny({"f16", "f16x2", "bf16", "bf16x2"});
  OpCost cost = Pipe(Unit::kFma, f.fma_cycles * (s.Has("f32x2") ? 2 : 1),
                     halves ? f.half_latency : f.fma_latency);
  cost.flops = (IsOneOf(s.opcode(), {"fma", "mad"}) ? 2 : 1) * (packed ? 2 : 1);
  return cost;
}

// ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, div of f32.
OpCost SpecialCost(const Spelling& s, const Figures& f) {
  int slots = 1;  // beside the one of the MUFU
  if (s.Is("div")) slots = s.Has("approx") ? 2 : s.Has("full") ? 4 : 9;
  if (s.HasAny({"rn", "rz", "rm", "rp"}) && !s.Is("div")) slots = 9;
  if (IsOneOf(s.opcode(), {"ex2", "lg2", "rsqrt", "rcp", "sqrt"}) && s.Has("approx")) {
    // Subnormal operands are scaled, unless they count as zeros.
    slots = s.HasAny({"ftz", "f16", "f16x2", "bf16", "bf16x2"}) ? 0 : 2;
  }
  if (s.Is("tanh")) slots = 0;
  // Correctly rounded: a test (FCHK) on the same unit, and a branch to what treats rare operands.
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

// Instructions of the machine that a division takes; by a constant it is a multiplication.
int DivisionSlots(const Spelling& s, const SourceLine& source) {
  if (source.use.reads.size() < 2) return 4;
  return s.ElementBits() == 64 ? 70 : 18;
}

OpCost IntegerCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  const int wide = s.ElementBits() == 64 ? 2 : 1;
  if (IsOneOf(s.opcode(), {"div", "rem"})) {
    OpCost cost = Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, DivisionSlots(s, source));
    // Two conversions and a reciprocal are among them.
    if (cost.slots > 4) cost.latency += 3 * (f.mufu_latency - f.alu_latency);
    return cost;
  }
  if (IsOneOf(s.opcode(), {"mul", "mad", "mul24", "mad24"})) {
    // IMAD runs on the multipliers of the FMA pipe.
    const int slots = s.Has("wide") ? 1 : wide == 2 ? 4 : s.Has("hi") ? 2 : 1;
    return Pipe(Unit::kFma, f.alu_cycles, f.alu_latency, slots);
  }
  if (IsOneOf(s.opcode(), {"popc", "clz", "brev", "bfind"})) {
    return Pipe(Unit::kMufu, f.mufu_cycles, f.mufu_latency, wide);
  }
  if (IsOneOf(s.opcode(), {"add", "sub"})) {
    return Pipe(Unit::kAdd, f.alu_cycles, f.alu_latency, wide);
  }
  const bool shifts = IsOneOf(s.opcode(), {"shl", "shr"});
  return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, shifts && wide == 2 ? 2 : wide);
}

OpCost MoveCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  if (IsOneOf(s.opcode(), {"selp", "slct"})) {
    return Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency, s.ElementBits() == 64 ? 2 : 1);
  }
  const bool packs = s.Is("mov") && s.Has("b32") && source.use.reads.size() >= 2;
  return packs ? Pipe(Unit::kAlu, f.alu_cycles, f.alu_latency) : Free();
}

OpCost MemoryCost(const Spelling& s, Unit unit, const SourceLine& source, const Figures& f) {
  OpCost cost;
  cost.unit = unit;
  cost.load = IsOneOf(s.opcode(), {"ld", "ldu", "atom", "ldmatrix"});
  cost.store = IsOneOf(s.opcode(), {"st", "atom", "red", "stmatrix"});
  cost.atomic = IsOneOf(s.opcode(), {"atom", "red"});
  cost.in_order = s.HasAny({"acquire", "release", "acq_rel", "volatile", "relaxed"});
  cost.constant = s.Has("nc");
  cost.past_l1 = cost.in_order || s.HasAny({"cg", "cv"});
  cost.bytes = static_cast<uint16_t>(s.AccessBytes());
  if (!source.use.addresses.empty()) cost.address = &source.use.addresses[0];
  if (unit == Unit::kMatrixMove) {
    const std::string_view count = s.Prefixed("x");
    cost.bytes = static_cast<uint16_t>(16 * (count == "x4" ? 4 : count == "x2" ? 2 : 1));
    cost.latency = f.matrix_latency;
  }
  if (IsOneOf(s.opcode(), {"prefetch", "prefetchu", "discard", "applypriority"})) {
    cost = Control(Unit::kOther, 1);
  }
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

// mma.sync: the warp's sub-core has a quarter of the tensor core.
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

// A warp issues the next one after a while; longer with A in registers, which are read then.
OpCost WgmmaCost(const Spelling& s, const SourceLine& source) {
  const int eighth = NumberAfter(s.Prefixed("m64"), 'n') / 8;
  const bool from_registers = !source.use.engine_reads.empty();
  return Control(Unit::kWgmma, std::max(1, from_registers ? eighth : eighth - 4));
}

OpCost TensorCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  const std::string_view what = s.part(1);
  if (what == "ld" || what == "st") {
    OpCost cost;
    cost.unit = what == "ld" ? Unit::kTensorLoad : Unit::kTensorStore;
    const auto& registers = what == "ld" ? source.use.writes : source.use.reads;
    double columns = static_cast<double>(registers.size() - (what == "st" ? 1 : 0));
    // Half of the lanes: half of the width of the port, or less.
    if (s.HasAny({"16x64b", "16x128b"})) columns *= 2;
    if (s.Has("16x256b")) columns *= 4;
    if (!s.Prefixed("pack").empty() || !s.Prefixed("unpack").empty()) columns *= 2;
    cost.cycles = columns / f.tmem_columns;
    cost.latency = what == "ld" ? f.tmem_load_latency : f.tmem_store_latency;
    return cost;
  }
  if (what.starts_with("wait")) {
    OpCost cost = Control(Unit::kBarrier, 1);
    cost.waits_tensor_loads = what == "wait::ld";
    return cost;
  }
  if (what.starts_with("fence") || what == "relinquish_alloc_permit") {
    return Control(Unit::kFence, 1);
  }
  if (what == "alloc") return Control(Unit::kBarrier, f.tmem_alloc);
  if (what == "dealloc") return Control(Unit::kFence, 8);
  return Control(Unit::kAsync, 1);
}

OpCost AsyncCost(const Spelling& s, const SourceLine& source, const Op& op, const Figures& f) {
  if (s.Has("wait_group") || s.Has("wait_all")) return Control(Unit::kBarrier, 1);
  if (s.Has("bulk") && !s.Has("commit_group")) return Control(Unit::kAsync, f.tma_hold);
  if (s.Has("commit_group") || s.Has("prefetch") || s.Has("mbarrier") || s.opcode() != "cp") {
    return Control(Unit::kAsync, 1);
  }
  OpCost cost;
  cost.unit = Unit::kCopy;
  cost.latency = f.copy_issue;
  cost.in_order = true;
  cost.bytes = static_cast<uint16_t>(op.immediate);
  cost.address = &source.use.addresses[0];
  cost.source = &source.use.addresses[1];
  return cost;
}

OpCost BarrierCost(const Spelling& s, const Figures& f) {
  if (s.HasAny({"wait", "try_wait", "test_wait", "sync", "red"}) || s.Is("bar") ||
      s.Is("barrier")) {
    return Control(Unit::kBarrier, s.Is("mbarrier") ? f.mbarrier_wake : f.barrier_latency);
  }
  if (s.Is("mbarrier")) {
    OpCost cost = Control(Unit::kBarrier, f.mbarrier_latency);
    cost.passable = true;
    return cost;
  }
  // ptxas makes a MEMBAR of most: of the GPU, or of the CTA.
  const bool wide = s.HasAny({"gl", "sys", "gpu"}) || (s.part(2) == "async" && s.size() == 3);
  OpCost cost = Control(Unit::kFence, wide ? f.gpu_fence_latency : f.fence_latency);
  cost.waits_copies = wide;
  cost.after_copies = !wide && !s.HasAny({"mbarrier_init", "global"});
  return cost;
}

OpCost WarpCost(const Spelling& s, const Figures& f) {
  if (s.Is("bar")) return Control(Unit::kVote, 2);
  if (IsOneOf(s.opcode(), {"shfl", "movmatrix"})) {
    return Pipe(Unit::kShuffle, 1, f.shuffle_latency);
  }
  OpCost cost = Pipe(Unit::kVote, f.alu_cycles, f.vote_latency);
  if (s.Is("redux")) cost = Pipe(Unit::kMufu, f.mufu_cycles, 44);
  cost.pure = false;
  return cost;
}

OpCost ControlCost(const Spelling& s, const Figures& f) {
  OpCost cost = Control(Unit::kOther, 1);
  if (IsOneOf(s.opcode(), {"bra", "brx", "call", "ret", "exit"})) {
    cost.unit = Unit::kBranch;
    cost.latency = f.branch_latency;
    cost.ends_block = true;
  }
  if (s.Is("nanosleep")) cost = Control(Unit::kBarrier, 1);
  if (s.Is("createpolicy")) return Free();
  return cost;
}

OpCost ArithmeticCost(const Spelling& s, const SourceLine& source, const Figures& f) {
  if (IsOneOf(s.opcode(), {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"}) ||
      (s.Is("div") && s.Has("f32"))) {
    return SpecialCost(s, f);
  }
  if (IsOneOf(s.opcode(), {"setp", "set"})) {
    const int slots = s.ElementBits() == 64 && !s.Has("f64") ? 2 : 1;
    if (s.Has("f64")) return Pipe(Unit::kFp64, f.fp64_cycles, f.predicate_latency);
    return Pipe(Unit::kAlu, f.alu_cycles, f.predicate_latency / slots, slots);
  }
  if (source.kind == InstructionClass::kFloat) return FloatCost(s, f);
  return IntegerCost(s, source, f);
}

OpCost ClassCost(const Spelling& s, const SourceLine& source, const Op& op, const Figures& f) {
  using C = InstructionClass;
  switch (source.kind) {
    case C::kInteger:
    case C::kFloat:
      return ArithmeticCost(s, source, f);
    case C::kConversion:
      return ConversionCost(s, f);
    case C::kMove:
      return MoveCost(s, source, f);
    case C::kWarp:
      return WarpCost(s, f);
    case C::kConstantMemory:
      return Free();
    case C::kGlobalMemory:
    case C::kLocalMemory:
      return MemoryCost(s, Unit::kGlobal, source, f);
    case C::kGenericMemory:
      return MemoryCost(s, Unit::kGeneric, source, f);
    case C::kSharedMemory:
      return MemoryCost(
          s, IsOneOf(s.opcode(), {"ldmatrix", "stmatrix"}) ? Unit::kMatrixMove : Unit::kShared,
          source, f);
    case C::kAsyncCopy:
      return AsyncCost(s, source, op, f);
    case C::kTensorMemory:
    case C::kTensorCore:
      if (s.Is("mma")) return MmaCost(s, f);
      if (s.Is("tcgen05")) return TensorCost(s, source, f);
      if (s.Has("mma_async")) return WgmmaCost(s, source);
      return s.Has("wait_group") ? Control(Unit::kBarrier, 1) : Control(Unit::kFence, 1);
    case C::kBarrier:
      return s.Is("tcgen05") ? TensorCost(s, source, f) : BarrierCost(s, f);
    case C::kControl:
      return ControlCost(s, f);
  }
  return Control(Unit::kOther, 1);
}

}  // namespace

OpCost CostOf(const SourceLine& source, const Op& op, const Figures& figures) {
  const Spelling spelling(source.spelling);
  if (spelling.Is("wmma")) {
    throw EmulatorError("unsupported", "'" + source.spelling +
                                           "' cannot be timed: what ptxas makes of wmma is not "
                                           "known; mma.sync and ldmatrix can");
  }
  if (spelling.HasAny({"sp", "sp::ordered_metadata"})) {
    throw EmulatorError("unsupported", "'" + source.spelling +
                                           "' cannot be timed: the rate of sparse matrix "
                                           "instructions is not known; dense ones can");
  }
  if (op.handler == CallHandler()) {
    throw EmulatorError("unsupported",
                        "calls that are not inlined cannot be timed: the time of a frame is not "
                        "known");
  }
  OpCost cost = ClassCost(spelling, source, op, figures);
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
  for (const Op& op : kernel.code) {
    // A label: what comes before it ends a block.
    if (op.target != 0 && op.target < costs_.size()) costs_[op.target - 1].ends_block = true;
  }
}

// Where some operand comes from an instruction before it in the block that is never left out for
// having the operands of the last time.
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

// What follows from the rest.
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
  FindBlocks(kernel);
  FoldInstructions(kernel, figures, &costs_);
  MarkUnrolledLoops(kernel, &costs_);
  MoveWaitsUp(kernel, &costs_);
  MergeSharedLoads(kernel, &costs_);
  FindRenewed();
  Complete();
}

}  // namespace tilelang::emulator
