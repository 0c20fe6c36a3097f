// Instruction family wgmma: mma_async of a warpgroup, fence, commit_group and wait_group.
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "emulator/async/engines.h"
#include "emulator/async/matrix_operand.h"
#include "emulator/async/signals.h"
#include "emulator/core/decoder.h"
#include "emulator/core/families.h"
#include "emulator/sanitizer/warp_checks.h"

namespace tilelang::emulator {
namespace {

Warpgroup& GroupOf(Warp& w) { return CtaState::Of(w.cta).WarpgroupOf(w); }

// Null when the launch does not ask for checks of ordering.
WgmmaRegisters* RegistersOf(Warp& w) {
  return Engines::Of(w).sanitizer() ? &WarpChecks::Of(w).OfWgmma(w) : nullptr;
}

ActorId ActorOf(Engines& engines, const Issuer& owner) {
  return engines.ActorOf(ActorKind::kWarpgroup, owner, "wgmma of the warpgroup", true);
}

// --- mma_async ----------------------------------------------------------------------------------

// Operands: [0] descriptor of A or none, [1] descriptor of B, [2] scale-d.
WgmmaOperands OperandsOf(Warp& w, const Op& op, int lane) {
  WgmmaOperands operands;
  if (op.a[0] != kNoSlot) operands.a = w.Reg<uint64_t>(op.a[0])[lane];
  operands.b = w.Reg<uint64_t>(op.a[1])[lane];
  operands.accumulate = w.Predicate(op.a[2]) >> lane & 1;
  return operands;
}

[[noreturn]] void FailUniform(const Issuer& issuer) {
  Fail(issuer, "illegal-operand",
       "the threads of a warpgroup must give wgmma.mma_async the same matrix descriptors and the "
       "same scale-d");
}

void CheckOrder(Warp& w, const Op& op, Warpgroup& group, const WgmmaPlan& plan) {
  Engines& engines = Engines::Of(w);
  Sanitizer* sanitizer = engines.sanitizer();
  if (!sanitizer) return;
  const WgmmaForm& form = *plan.form;
  const uint32_t number = group.committed(w) + 1;
  const ActorId actor = ActorOf(engines, group.Owner(op));
  sanitizer->OrderOfPipe(actor).Join(sanitizer->Of(w.Here(0)).happened);
  RegistersOf(w)->Issue(w, op, {form.d_slots, form.a_slots, form.names, form.n, number});
  Sanitizer::Step step = sanitizer->ThreadStep(w.Here(0), "wgmma.mma_async reads A in", false);
  step.actor = actor;
  step.step = number;
  step.in_order_with = step.actor;
  step.generic = false;
  step.met = nullptr;
  sanitizer->SharedUnits(w.cta, plan.a_units, kUnitBytes, step);
  step.what = "wgmma.mma_async reads B in";
  sanitizer->SharedUnits(w.cta, plan.b_units, kUnitBytes, step);
}

AsyncWork WorkOf(const WgmmaForm& form) {
  AsyncWork work;
  work.kind = AsyncWork::Kind::kWgmma;
  work.m = kWgmmaRows;
  work.n = form.n;
  work.a_in_shared = !form.a_in_registers;
  work.flops = int64_t{2} * kWgmmaRows * form.n * form.depth();
  return work;
}

void Queue(Warp& w, const Op& op, Warpgroup& group, const std::shared_ptr<WgmmaPlan>& plan) {
  PendingStep step;
  step.issuer = group.Owner(op);
  step.name = "wgmma.mma_async";
  step.work = WorkOf(*plan->form);
  step.act = [cta = &w.cta, issuer = step.issuer, plan, warps = group.warps()] {
    WarnUninitialised(*cta, issuer, plan->a_units);
    WarnUninitialised(*cta, issuer, plan->b_units);
    if (cta->cluster.launch.skips_products) return;
    const std::string problem = RunWgmma(*plan, cta->shared.at(0), warps);
    if (!problem.empty()) Fail(issuer, "illegal-operand", problem);
  };
  Engines::Of(w).Queue(ChannelKind::kWarpgroup, std::move(step));
}

Flow MmaAsync(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  Warpgroup& group = GroupOf(w);
  Warpgroup::Step& entered = group.Enter(w, op);
  const WgmmaOperands operands = OperandsOf(w, op, 0);
  for (int lane = 1; lane < kLanes; ++lane) {
    if (OperandsOf(w, op, lane) != operands) FailUniform(w.Here(lane));
  }
  if (!entered.plan) {
    entered.plan =
        std::make_shared<WgmmaPlan>(Located(w.Here(0), operands.b & 0x3FFF, "shared memory", [&] {
          return PlanWgmma(op.Extra<WgmmaForm>(), operands);
        }));
    CheckUnits(w.cta, w.Here(0), entered.plan->a_units, "operand A of wgmma.mma_async");
    CheckUnits(w.cta, w.Here(0), entered.plan->b_units, "operand B of wgmma.mma_async");
    for (const std::string& text : entered.plan->warnings) Warn(w.Here(0), "descriptor", text);
  } else if (entered.plan->operands != operands) {
    FailUniform(w.Here(0));
  }
  CheckOrder(w, op, group, *entered.plan);
  group.uncommitted(w) = &op;
  if (entered.complete()) Queue(w, op, group, entered.plan);
  return Flow::kNext;
}

struct WgmmaTypes {
  const char* name;  // of an operand's type
  MatrixType type;
};

constexpr WgmmaTypes kOperandTypes[] = {
    {"f16", MatrixType::kF16},   {"bf16", MatrixType::kBf16}, {"tf32", MatrixType::kTf32},
    {"e4m3", MatrixType::kE4m3}, {"e5m2", MatrixType::kE5m2}, {"s8", MatrixType::kS8},
    {"u8", MatrixType::kU8},     {"b1", MatrixType::kB1},
};

bool IsFp8(MatrixType type) { return type == MatrixType::kE4m3 || type == MatrixType::kE5m2; }

std::optional<MatrixType> OperandType(const std::string& name) {
  for (const WgmmaTypes& entry : kOperandTypes) {
    if (name == entry.name) return entry.type;
  }
  return std::nullopt;
}

// .dtype.atype.btype, which is what is left of the modifiers.
void TakeTypes(Decoder& d, WgmmaForm& form) {
  const std::vector<std::string> names = d.mods.rest();
  if (names.size() != 3) d.Illegal("'" + d.inst.Spelling() + "' needs the types of D, A and B");
  const auto a = OperandType(names[1]);
  const auto b = OperandType(names[2]);
  if (!a || !b) d.Unsupported("'" + d.inst.Spelling() + "'");
  for (const std::string& name : names) d.mods.Take(name);
  form.a_type = *a;
  form.b_type = *b;
  const bool f16 = *a == MatrixType::kF16;
  const bool mixed = (IsFp8(*a) && IsFp8(*b)) || (IsInteger(*a) && IsInteger(*b) && *a != *b);
  const bool b1 = *a == MatrixType::kB1 || *b == MatrixType::kB1;
  if (*a != *b && (!mixed || b1)) {
    d.Illegal("wgmma.mma_async does not multiply ." + names[1] + " with ." + names[2]);
  }
  const char* legal = IsInteger(*a) ? "s32" : f16 || IsFp8(*a) ? "f16 or f32" : "f32";
  if (std::string(legal).find(names[0]) == std::string::npos) {
    d.Illegal("D of wgmma.mma_async of ." + names[1] + " must be " + legal + ", not ." + names[0]);
  }
  form.d_type = names[0] == "s32"   ? AccumulatorType::kS32
                : names[0] == "f16" ? AccumulatorType::kF16
                                    : AccumulatorType::kF32;
}

bool IsLegalN(int n, bool integer) {
  if (n < 8 || n > 256) return false;
  return integer ? n == 8 || n == 24 || n % 16 == 0 : n % 8 == 0;
}

void TakePattern(Decoder& d, WgmmaForm& form) {
  if (form.a_type == MatrixType::kB1) d.Illegal("wgmma.mma_async.sp of .b1 does not exist");
  const int bytes = ContainerBytes(form.a_type);
  form.pattern = bytes == 4 ? SparsePattern::kOneOfTwo : SparsePattern::kTwoOfFour;
  form.metadata = MetadataOfWarp(form.pattern, 8 * bytes, form.depth());
}

// .m64nNkK
void TakeShape(Decoder& d, WgmmaForm& form, const std::string& shape) {
  const char* end = shape.data() + shape.size();
  const auto [rest, error] = std::from_chars(shape.data() + 4, end, form.n);
  const int depth = form.lines() * (form.a_type == MatrixType::kB1 ? 8 : 1);
  if (error != std::errc() || std::string(rest, end) != "k" + std::to_string(depth)) {
    d.Illegal("the shape of '" + d.inst.Spelling() + "' must be .m64nNk" + std::to_string(depth) +
              " for these types");
  }
  if (!IsLegalN(form.n, IsInteger(form.a_type))) {
    d.Illegal("N of '" + d.inst.Spelling() + "' must be " +
              (IsInteger(form.a_type) ? "8, 24 or a multiple of 16" : "a multiple of 8") +
              " up to 256");
  }
}

void TakeRegisters(Decoder& d, const ptx::Operand& operand, int count, Type type, bool writes,
                   std::vector<uint32_t>& slots, std::vector<std::string>& names) {
  const std::string what = std::string("registers for ") + (writes ? "D" : "A");
  for (const ptx::Operand* element : d.Vector(operand, count, what)) {
    slots.push_back(writes ? d.Destination(*element, type) : d.Source(*element, type));
    names.push_back(element->name);
  }
}

// An immediate operand that is one of two values, or the only one; true for the second.
bool TakeChoice(Decoder& d, size_t i, const char* name, int first, int second) {
  const int64_t value = d.Integer(d.operand(i));
  if (value != first && value != second) {
    const std::string other = first == second ? "" : " or " + std::to_string(second);
    d.Illegal(std::string(name) + " of wgmma.mma_async is " + std::to_string(first) + other +
              ", not " + std::to_string(value));
  }
  return value != first;
}

// imm-scale-a, imm-scale-b, imm-trans-a (A in shared memory), imm-trans-b.
void TakeImmediates(Decoder& d, WgmmaForm& form, size_t next) {
  if (IsInteger(form.a_type)) return;
  form.negate_a = TakeChoice(d, next, "imm-scale-a", 1, -1);
  form.negate_b = TakeChoice(d, next + 1, "imm-scale-b", 1, -1);
  next += 2;
  if (ContainerBytes(form.a_type) != 2) return;
  if (!form.a_in_registers && TakeChoice(d, next++, "imm-trans-a", 0, 1)) {
    form.a_major = MajorMode::kMn;
  }
  if (TakeChoice(d, next, "imm-trans-b", 0, 1)) form.b_major = MajorMode::kMn;
}

// Operands `next` and the one after: the register of metadata and the selector.
void TakeMetadata(Decoder& d, WgmmaForm& form, size_t next) {
  const ptx::Operand& operand = d.operand(next);
  if (operand.kind != ptx::Operand::Kind::kName) {
    d.Illegal("the metadata of wgmma.mma_async.sp must be in a register");
  }
  form.a_slots.push_back(d.Source(operand, Type::kB32));
  form.names.push_back(operand.name);
  form.metadata.selector = form.metadata.selectors() > 1
                               ? TakeChoice(d, next + 1, "the sparsity selector", 0, 1)
                               : TakeChoice(d, next + 1, "the sparsity selector", 0, 0);
}

void TakeAligned(Decoder& d) {
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) d.Illegal(".sync.aligned is mandatory");
}

void DecodeMmaForm(Decoder& d, bool sparse) {
  WgmmaForm& form = d.MakeExtra<WgmmaForm>();
  TakeAligned(d);
  const auto& names = d.mods.rest();
  const auto shape = std::find_if(names.begin(), names.end(),
                                  [](const std::string& name) { return name.starts_with("m64n"); });
  if (shape == names.end()) d.Illegal("wgmma.mma_async needs a shape, .m64nNkK");
  const std::string shape_name = *shape;
  d.mods.Take(shape_name);
  form.saturate = d.mods.Take("satfinite");
  const bool counts = d.mods.Take("and");
  if (d.mods.Take("popc") != counts) d.Illegal("wgmma.mma_async of .b1 needs .and.popc");
  TakeTypes(d, form);
  if (sparse) TakePattern(d, form);
  TakeShape(d, form, shape_name);
  if (counts != (form.a_type == MatrixType::kB1)) {
    d.Illegal("wgmma.mma_async needs .and.popc for .b1, and allows it for no other type");
  }
  if (form.saturate && (!IsInteger(form.a_type) || counts)) {
    d.Illegal("wgmma.mma_async allows .satfinite only for .s8 and .u8");
  }
  // The sanitizer follows registers of wgmma apart from the accesses of threads.
  const OperandUse use = d.use;
  const Type type = form.d_type == AccumulatorType::kF32   ? Type::kF32
                    : form.d_type == AccumulatorType::kS32 ? Type::kS32
                                                           : Type::kB32;
  TakeRegisters(d, d.operand(0), form.accumulators(), type, true, form.d_slots, form.names);
  form.a_in_registers = d.operand(1).kind == ptx::Operand::Kind::kVector;
  if (form.a_in_registers) {
    TakeRegisters(d, d.operand(1), kWgmmaFragments, Type::kB32, false, form.a_slots, form.names);
  }
  if (sparse) TakeMetadata(d, form, 3);
  d.use = use;
  d.use.engine_writes = form.d_slots;
  d.use.engine_reads = form.a_slots;
  d.Push(form.a_in_registers ? kNoSlot : d.Source(d.operand(1), Type::kB64));
  d.PushSource(2, Type::kB64);
  const size_t next = sparse ? 5 : 3;
  d.Push(d.Predicate(d.operand(next)));
  TakeImmediates(d, form, next + 1);
  d.op.handler = MmaAsync;
}

void DecodeMmaAsync(Decoder& d) { DecodeMmaForm(d, false); }
void DecodeSparse(Decoder& d) { DecodeMmaForm(d, true); }

// --- fence and groups ---------------------------------------------------------------------------

Flow Fence(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  GroupOf(w).Enter(w, op);
  if (WgmmaRegisters* registers = RegistersOf(w)) registers->Fence();
  return Flow::kNext;
}

Flow Commit(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  Warpgroup& group = GroupOf(w);
  const Warpgroup::Step& entered = group.Enter(w, op);
  const uint32_t number = ++group.committed(w);
  group.uncommitted(w) = nullptr;
  if (WgmmaRegisters* registers = RegistersOf(w)) registers->Commit(number);
  if (entered.complete()) Engines::Of(w).CommitGroup(ChannelKind::kWarpgroup, group.Owner(op));
  return Flow::kNext;
}

void WarnUncommitted(Warp& w, const Op& op, Warpgroup& group) {
  const Op* mma = group.uncommitted(w);
  if (op.immediate != 0 || !mma) return;
  Warn(w.Here(0), "wgmma-group",
       "wgmma.wait_group 0 does not wait for the wgmma.mma_async at PTX line " +
           std::to_string(w.cta.cluster.kernel().sources[mma->source].ptx_line) +
           ", which no wgmma.commit_group has put into a group");
}

std::string DescribeWait(const Warp& warp, const WaitInfo&) {
  return CtaState::Of(warp.cta).WarpgroupOf(warp).DescribeMissing();
}

// resume: 1 once the warp has entered.
Flow WaitGroup(Warp& w, const Op& op, uint32_t mask) {
  Warpgroup& group = GroupOf(w);
  if (w.split().resume == 0) {
    if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
    group.Enter(w, op);
    WarnUncommitted(w, op, group);
    w.split().resume = 1;
  }
  const uint32_t own = group.committed(w);
  const uint32_t finished = own - std::min(own, static_cast<uint32_t>(op.immediate));
  const uint32_t all = group.committed_by_all();
  if (all < finished) {
    WaitInfo info;
    info.object = "wgmma.wait_group";
    info.describe = DescribeWait;
    return w.WaitOn(info);
  }
  Engines& engines = Engines::Of(w);
  const Issuer owner = group.Owner(op);
  engines.FinishGroups(ChannelKind::kWarpgroup, owner, all - finished, w.Here(0));
  if (Sanitizer* sanitizer = engines.sanitizer()) {
    const ActorId actor = ActorOf(engines, owner);
    sanitizer->Learn(w.Here(0), actor, finished);
    // It acts after all four warps have executed it, and what they did before.
    sanitizer->Of(w.Here(0)).executed.Join(sanitizer->OrderOfPipe(actor));
    RegistersOf(w)->Wait(finished);
  }
  return Flow::kNext;
}

template <Handler handler>
void DecodeSync(Decoder& d) {
  TakeAligned(d);
  d.op.handler = handler;
}

void DecodeWaitGroup(Decoder& d) {
  TakeAligned(d);
  d.op.immediate = d.Integer(d.operand(0));
  if (d.op.immediate < 0) d.Illegal("wgmma.wait_group needs a count of 0 or more");
  d.op.handler = WaitGroup;
}

}  // namespace

void RegisterWgmma() {
  FamilyRegistry::Add("wgmma.mma_async", DecodeMmaAsync);
  FamilyRegistry::Add("wgmma.mma_async.sp", DecodeSparse);
  FamilyRegistry::Add("wgmma.fence", DecodeSync<Fence>);
  FamilyRegistry::Add("wgmma.commit_group", DecodeSync<Commit>);
  FamilyRegistry::Add("wgmma.wait_group", DecodeWaitGroup);
}

}  // namespace tilelang::emulator
