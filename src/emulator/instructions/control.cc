// Branches, exits, traps, and reading clocks.
#include <unordered_map>

#include "emulator/core/control_handlers.h"
#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/machine.h"
#include "emulator/isa/family.h"

namespace tilelang::emulator {
namespace {

Flow Branch(Warp& w, const Op& op, uint32_t mask) { return w.Diverge(mask, op.target); }

void DecodeBranch(Decoder& d) {
  d.mods.Take("uni");
  d.op.handler = Branch;
  d.function().SetTarget(d, d.operand(0).name);
}

struct IndexedTargets {
  std::vector<uint32_t> pcs;
};

// One split for each distinct index; the first group keeps running.
Flow BranchIndexed(Warp& w, const Op& op, uint32_t mask) {
  const auto& targets = op.Extra<IndexedTargets>().pcs;
  const uint32_t* index = w.Reg<uint32_t>(op.a[0]);
  int first = __builtin_ctz(mask);
  uint32_t same = 0;
  ForEachLane(mask, [&](int lane) { same |= (index[lane] == index[first]) ? 1u << lane : 0; });
  if (index[first] >= targets.size()) {
    Fail(w.Here(first), "illegal-operand",
         "brx.idx with index " + std::to_string(index[first]) + " but only " +
             std::to_string(targets.size()) + " targets");
  }
  if (same == w.split().mask) return w.Jump(targets[index[first]]);
  // The others come back here: they run this instruction again with their own index.
  w.SplitOff(same, targets[index[first]]);
  return w.Jump(w.Pc());
}

void DecodeBranchIndexed(Decoder& d) {
  d.mods.Take("uni");
  d.PushSource(0, Type::kU32);
  const auto* names = d.function().BranchTargets(d.operand(1).name);
  if (!names) d.Illegal("'" + d.operand(1).name + "' names no .branchtargets");
  auto& targets = d.MakeExtra<IndexedTargets>().pcs;
  targets.resize(names->size());
  for (size_t i = 0; i < names->size(); ++i) {
    d.function().PatchLater(&targets[i], (*names)[i], d.inst);
  }
  d.op.handler = BranchIndexed;
}

Flow Exit(Warp& w, const Op&, uint32_t mask) { return w.Exit(mask); }

void DecodeExit(Decoder& d) { d.op.handler = Exit; }

void DecodeReturn(Decoder& d) {
  d.mods.Take("uni");
  if (d.function().IsInlined()) {
    d.op.handler = Branch;
    d.function().SetReturnTarget(d);
  } else {
    d.op.handler = d.function().IsCalled() ? ReturnHandler() : Exit;
  }
}

Flow Trap(Warp& w, const Op&, uint32_t mask) {
  Fail(w.Here(__builtin_ctz(mask)), "trap", "the kernel executed a trap instruction");
}

void DecodeTrap(Decoder& d) { d.op.handler = Trap; }

Flow Nothing(Warp&, const Op&, uint32_t) { return Flow::kNext; }

void DecodeBreakpoint(Decoder& d) { d.op.handler = Nothing; }

// --- special registers --------------------------------------------------------------------------

enum class Clock : uint16_t { kClock, kClockHigh, kGlobalTimer, kGlobalTimerHigh };

uint64_t ReadClock(const Warp& w, Clock clock) {
  // Without a clock they count the warp instructions of the launch, so that runs repeat exactly.
  uint64_t ticks = w.cta.cluster.launch.instructions.load(std::memory_order_relaxed);
  if (const Timing* timing = w.cta.cluster.timing) {
    const bool cycles = clock == Clock::kClock || clock == Clock::kClockHigh;
    ticks = static_cast<uint64_t>(cycles ? timing->Clock(w).cycles() : timing->Nanoseconds(w));
  }
  switch (clock) {
    case Clock::kClockHigh:
    case Clock::kGlobalTimerHigh:
      return ticks >> 32;
    default:
      return ticks;
  }
}

template <typename T>
Flow ReadClockInto(Warp& w, const Op& op, uint32_t mask) {
  T value = static_cast<T>(ReadClock(w, static_cast<Clock>(op.flags)));
  T* target = w.Reg<T>(op.a[0]);
  ForEachLane(mask, [&](int lane) { target[lane] = value; });
  return Flow::kNext;
}

const std::unordered_map<std::string, Clock>& Clocks() {
  static const std::unordered_map<std::string, Clock> clocks = {
      {"%clock", Clock::kClock},
      {"%clock64", Clock::kClock},
      {"%clock_hi", Clock::kClockHigh},
      {"%globaltimer", Clock::kGlobalTimer},
      {"%globaltimer_lo", Clock::kGlobalTimer},
      {"%globaltimer_hi", Clock::kGlobalTimerHigh}};
  return clocks;
}

const std::unordered_map<std::string, Special>& Specials() {
  using S = Special;
  static const std::unordered_map<std::string, Special> specials = {
      {"%tid.x", S::kTidX},
      {"%tid.y", S::kTidY},
      {"%tid.z", S::kTidZ},
      {"%ntid.x", S::kNtidX},
      {"%ntid.y", S::kNtidY},
      {"%ntid.z", S::kNtidZ},
      {"%ctaid.x", S::kCtaidX},
      {"%ctaid.y", S::kCtaidY},
      {"%ctaid.z", S::kCtaidZ},
      {"%nctaid.x", S::kNctaidX},
      {"%nctaid.y", S::kNctaidY},
      {"%nctaid.z", S::kNctaidZ},
      {"%laneid", S::kLaneid},
      {"%warpid", S::kWarpid},
      {"%nwarpid", S::kNwarpid},
      {"%smid", S::kSmid},
      {"%nsmid", S::kNsmid},
      {"%gridid", S::kGridid},
      {"%clusterid.x", S::kClusteridX},
      {"%clusterid.y", S::kClusteridY},
      {"%clusterid.z", S::kClusteridZ},
      {"%nclusterid.x", S::kNclusteridX},
      {"%nclusterid.y", S::kNclusteridY},
      {"%nclusterid.z", S::kNclusteridZ},
      {"%cluster_ctaid.x", S::kClusterCtaidX},
      {"%cluster_ctaid.y", S::kClusterCtaidY},
      {"%cluster_ctaid.z", S::kClusterCtaidZ},
      {"%cluster_nctaid.x", S::kClusterNctaidX},
      {"%cluster_nctaid.y", S::kClusterNctaidY},
      {"%cluster_nctaid.z", S::kClusterNctaidZ},
      {"%cluster_ctarank", S::kClusterCtarank},
      {"%cluster_nctarank", S::kClusterNctarank},
      {"%is_explicit_cluster", S::kIsExplicitCluster},
      {"%lanemask_eq", S::kLanemaskEq},
      {"%lanemask_le", S::kLanemaskLe},
      {"%lanemask_lt", S::kLanemaskLt},
      {"%lanemask_ge", S::kLanemaskGe},
      {"%lanemask_gt", S::kLanemaskGt},
      {"%dynamic_smem_size", S::kDynamicSmemSize},
      {"%total_smem_size", S::kTotalSmemSize},
      {"%aggr_smem_size", S::kAggregateSmemSize},
      {"%reserved_smem_offset_begin", S::kZero},
      {"%reserved_smem_offset_end", S::kReservedSmemEnd},
      {"%reserved_smem_offset_cap", S::kReservedSmemCap},
      {"%reserved_smem_offset_0", S::kZero},
      {"%reserved_smem_offset_1", S::kZero},
      {"%envreg1", S::kEnvreg1},
      {"%envreg2", S::kEnvreg2},
      {"%tid.w", S::kZero},
      {"%ntid.w", S::kZero},
      {"%ctaid.w", S::kZero},
      {"%nctaid.w", S::kZero},
      {"%current_graph_exec", S::kZero}};
  return specials;
}

}  // namespace

Handler ExitHandler() { return Exit; }
Handler BranchHandler() { return Branch; }

Successors SuccessorsOf(const Op& op) {
  Successors after;
  if (op.handler == Branch) {
    after.targets = {op.target};
  } else if (op.handler == BranchIndexed) {
    after.targets = op.Extra<IndexedTargets>().pcs;
  } else if (op.handler != Exit && op.handler != Trap) {
    return after;
  }
  after.jumps = true;
  after.next = op.guard != kNoSlot;
  return after;
}

bool ParseSpecial(const std::string& name, Special* special) {
  auto found = Specials().find(name);
  if (found == Specials().end()) return false;
  *special = found->second;
  return true;
}

bool IsDynamicSpecial(const std::string& name) { return Clocks().count(name) != 0; }

void EmitDynamicSpecial(FunctionDecoder& function, const std::string& name, uint32_t slot, int bits,
                        const ptx::Instruction& instruction) {
  Op op;
  Decoder d(function, instruction, *isa::FamilyOf(instruction), op);
  op.handler = bits == 64 ? ReadClockInto<uint64_t> : ReadClockInto<uint32_t>;
  op.flags = static_cast<uint16_t>(Clocks().at(name));
  d.Push(slot);
  function.Finish(d);
}

void RegisterControl() {
  FamilyRegistry::Add("bra", DecodeBranch);
  FamilyRegistry::Add("brx.idx", DecodeBranchIndexed);
  FamilyRegistry::Add("ret", DecodeReturn);
  FamilyRegistry::Add("exit", DecodeExit);
  FamilyRegistry::Add("trap", DecodeTrap);
  FamilyRegistry::Add("brkpt", DecodeBreakpoint);
}

}  // namespace tilelang::emulator
