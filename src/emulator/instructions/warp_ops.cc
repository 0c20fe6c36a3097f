// Exchange between the lanes of a warp: shfl, vote, match, redux, elect, activemask, bar.warp.sync.
#include <bit>
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"
#include "emulator/instructions/shuffle.h"

namespace tilelang::emulator {
namespace {

// Waits until the lanes of the membermask that have not exited are here. Then `*group` is the lanes
// that take part, and the result is kNext. Lanes whose guard is false go on; lanes that pass
// another membermask form groups of their own.
Flow Gather(Warp& w, uint32_t mask, uint32_t slot, uint32_t* group) {
  const uint32_t* masks = w.Reg<uint32_t>(slot);
  int first = std::countr_zero(mask);
  uint32_t members = masks[first], same = mask, differ = 0;
  for (int i = 0; i < kLanes; ++i) differ |= masks[i] ^ members;
  if (differ) {
    ForEachLane(mask, [&](int i) { same &= masks[i] == members ? kAllLanes : ~(1u << i); });
  }
  if (uint32_t outside = same & ~members) {
    Fail(w.Here(std::countr_zero(outside)), "illegal-operand",
         "the executing lane is not in the membermask of this .sync instruction");
  }
  if (same != mask) w.SplitOff(mask & ~same, w.Pc());
  uint32_t expected = members & w.live;
  if ((expected & ~same) == 0) {
    *group = expected;
    w.Met(expected);
    return Flow::kNext;
  }
  uint32_t unguarded = w.split().mask & ~same;
  if (unguarded) w.SplitOff(unguarded, w.Pc() + 1);
  // Splits merge only if they wait here with the same membermask.
  w.split().resume = uint64_t{1} << 32 | members;
  WaitInfo info;
  info.object = "the other lanes of its membermask";
  return w.WaitOn(info);
}

// --- shfl
// -----------------------------------------------------------------------------------------

struct ShuffleSources {
  uint32_t lane[kLanes], in_range[kLanes];
};

template <Shuffle kMode>
[[gnu::always_inline]] inline void FindSources(const uint32_t* b, const uint32_t* c,
                                               ShuffleSources* out) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    out->lane[i] = SourceLane<kMode>(i, b[i], c[i], &out->in_range[i]);
  }
}
template <Shuffle kMode>
void FindSourcesBase(const uint32_t* b, const uint32_t* c, ShuffleSources* out) {
  FindSources<kMode>(b, c, out);
}
template <Shuffle kMode>
TL_WIDE_TARGET void FindSourcesWide(const uint32_t* b, const uint32_t* c, ShuffleSources* out) {
  FindSources<kMode>(b, c, out);
}

// Slots: d, p (or none), a, b, c, membermask.
template <Shuffle kMode>
Flow ShuffleLanes(Warp& w, const Op& op, uint32_t mask) {
  uint32_t group = 0;
  if (Flow flow = Gather(w, mask, op.slots[5], &group); flow != Flow::kNext) return flow;
  uint32_t* d = w.Reg<uint32_t>(op.slots[0]);
  const uint32_t* a = w.Reg<uint32_t>(op.slots[2]);
  static const auto find = HasWideTarget() ? FindSourcesWide<kMode> : FindSourcesBase<kMode>;
  ShuffleSources sources;
  find(w.Reg<uint32_t>(op.slots[3]), w.Reg<uint32_t>(op.slots[4]), &sources);
  uint32_t values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = a[sources.lane[i]];
  Lanes(group, [&](int i) { d[i] = values[i]; });
  if (op.slots[1] == kNoSlot) return Flow::kNext;
  uint32_t predicate = 0;
  for (int i = 0; i < kLanes; ++i) predicate |= sources.in_range[i] << i;
  w.SetPredicate(op.slots[1], group, predicate);
  return Flow::kNext;
}

void DecodeShuffle(Decoder& d) {
  std::string mode = d.mods.TakeOneOf({"up", "down", "bfly", "idx"});
  d.mods.TakeType();
  const ptx::Operand& target = d.operand(0);
  bool pair = target.kind == ptx::Operand::Kind::kPair;
  d.Push(d.Destination(pair ? target.elements[0] : target, Type::kB32));
  d.Push(pair ? d.PredicateDestination(target.elements[1]) : kNoSlot);
  for (size_t i = 1; i <= 3; ++i) d.PushSource(i, Type::kB32);
  d.PushSource(4, Type::kU32);
  d.op.handler = mode == "up"     ? ShuffleLanes<Shuffle::kUp>
                 : mode == "down" ? ShuffleLanes<Shuffle::kDown>
                 : mode == "bfly" ? ShuffleLanes<Shuffle::kBfly>
                                  : ShuffleLanes<Shuffle::kIdx>;
}

// --- vote
// -----------------------------------------------------------------------------------------

enum class Vote : uint16_t { kAll, kAny, kUniform, kBallot };

// Slots: d, predicate, membermask.
Flow VoteLanes(Warp& w, const Op& op, uint32_t mask) {
  uint32_t group = 0;
  if (Flow flow = Gather(w, mask, op.a[2], &group); flow != Flow::kNext) return flow;
  uint32_t votes = w.Predicate(op.a[1]) & group;
  bool result = false;
  switch (static_cast<Vote>(op.flags)) {
    case Vote::kAll:
      result = votes == group;
      break;
    case Vote::kAny:
      result = votes != 0;
      break;
    case Vote::kUniform:
      result = votes == group || votes == 0;
      break;
    case Vote::kBallot: {
      uint32_t* d = w.Reg<uint32_t>(op.a[0]);
      ForEachLane(group, [&](int i) { d[i] = votes; });
      return Flow::kNext;
    }
  }
  w.SetPredicate(op.a[0], group, result ? kAllLanes : 0);
  return Flow::kNext;
}

void DecodeVote(Decoder& d) {
  std::string mode = d.mods.TakeOneOf({"all", "any", "uni", "ballot"});
  bool ballot = mode == "ballot";
  d.mods.TakeType();
  d.op.flags = static_cast<uint16_t>(mode == "all"   ? Vote::kAll
                                     : mode == "any" ? Vote::kAny
                                     : mode == "uni" ? Vote::kUniform
                                                     : Vote::kBallot);
  d.Push(ballot ? d.Destination(d.operand(0), Type::kB32) : d.PredicateDestination(d.operand(0)));
  d.Push(d.Predicate(d.operand(1)));
  d.PushSource(2, Type::kB32);
  d.op.handler = VoteLanes;
}

// --- match
// ----------------------------------------------------------------------------------------

// Slots: d, p (or none), a, membermask.
template <typename T, bool kAll>
Flow Match(Warp& w, const Op& op, uint32_t mask) {
  uint32_t group = 0;
  if (Flow flow = Gather(w, mask, op.a[3], &group); flow != Flow::kNext) return flow;
  const T* a = w.Reg<T>(op.a[2]);
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  uint32_t equal[kLanes];
  ForEachLane(group, [&](int i) {
    equal[i] = 0;
    ForEachLane(group, [&](int k) { equal[i] |= a[i] == a[k] ? 1u << k : 0; });
  });
  if (kAll) {
    bool all = equal[std::countr_zero(group)] == group;
    ForEachLane(group, [&](int i) { d[i] = all ? group : 0; });
    w.SetPredicate(op.a[1], group, all ? kAllLanes : 0);
  } else {
    ForEachLane(group, [&](int i) { d[i] = equal[i]; });
  }
  return Flow::kNext;
}

void DecodeMatch(Decoder& d) {
  bool all = d.mods.TakeOneOf({"all", "any"}) == "all";
  if (!d.mods.Take("sync")) d.Unsupported("match without .sync");
  Type type = d.mods.TakeType();
  const ptx::Operand& target = d.operand(0);
  bool pair = target.kind == ptx::Operand::Kind::kPair;
  d.Push(d.Destination(pair ? target.elements[0] : target, Type::kB32));
  d.Push(pair ? d.PredicateDestination(target.elements[1]) : kNoSlot);
  d.PushSource(1, type);
  d.PushSource(2, Type::kB32);
  if (TypeBits(type) == 64) {
    d.op.handler = all ? Match<uint64_t, true> : Match<uint64_t, false>;
  } else {
    d.op.handler = all ? Match<uint32_t, true> : Match<uint32_t, false>;
  }
}

// --- redux
// ----------------------------------------------------------------------------------------

// clang-format off
struct RAdd { uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; } };
struct RAnd { uint32_t operator()(uint32_t a, uint32_t b) const { return a & b; } };
struct ROr { uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; } };
struct RXor { uint32_t operator()(uint32_t a, uint32_t b) const { return a ^ b; } };
template <typename T> struct RMin { T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct RMax { T operator()(T a, T b) const { return a < b ? b : a; } };
// clang-format on
template <bool kMax, bool kAbs, bool kNan>
struct RFloat {
  float operator()(float a, float b) const {
    if (kAbs) a = std::fabs(a), b = std::fabs(b);
    return CanonicalNan(MinMax<kMax, kNan>(a, b));
  }
};

// Slots: d, a, membermask.
template <typename T, typename F>
Flow Reduce(Warp& w, const Op& op, uint32_t mask) {
  uint32_t group = 0;
  if (Flow flow = Gather(w, mask, op.a[2], &group); flow != Flow::kNext) return flow;
  const T* a = w.Reg<T>(op.a[1]);
  T result = a[std::countr_zero(group)];
  if constexpr (std::is_same_v<T, float>) result = F()(result, result);
  ForEachLane(group & (group - 1), [&](int i) { result = F()(result, a[i]); });
  T* d = w.Reg<T>(op.a[0]);
  ForEachLane(group, [&](int i) { d[i] = result; });
  return Flow::kNext;
}

template <bool kMax>
Handler FloatReduce(bool absolute, bool nan) {
  if (absolute) {
    return nan ? Reduce<float, RFloat<kMax, true, true>> : Reduce<float, RFloat<kMax, true, false>>;
  }
  return nan ? Reduce<float, RFloat<kMax, false, true>> : Reduce<float, RFloat<kMax, false, false>>;
}

void DecodeRedux(Decoder& d) {
  std::string operation = d.mods.TakeOneOf({"add", "min", "max", "and", "or", "xor"});
  bool absolute = d.mods.Take("abs"), nan = d.mods.Take("NaN");
  Type type = d.mods.TakeType();
  bool max = operation == "max";
  if (type == Type::kF32) {
    d.op.handler = max ? FloatReduce<true>(absolute, nan) : FloatReduce<false>(absolute, nan);
  } else if (max || operation == "min") {
    d.op.handler =
        type == Type::kS32
            ? (max ? Reduce<int32_t, RMax<int32_t>> : Reduce<int32_t, RMin<int32_t>>)
            : (max ? Reduce<uint32_t, RMax<uint32_t>> : Reduce<uint32_t, RMin<uint32_t>>);
  } else {
    d.op.handler = operation == "add"   ? Reduce<uint32_t, RAdd>
                   : operation == "and" ? Reduce<uint32_t, RAnd>
                   : operation == "or"  ? Reduce<uint32_t, ROr>
                                        : Reduce<uint32_t, RXor>;
  }
  PushUniform(d, type, 1);
  d.PushSource(2, Type::kB32);
}

// --- elect, activemask, bar.warp.sync
// -------------------------------------------------------------

// Slots: d, p, membermask. The lowest lane is elected.
Flow Elect(Warp& w, const Op& op, uint32_t mask) {
  uint32_t group = 0;
  if (Flow flow = Gather(w, mask, op.a[2], &group); flow != Flow::kNext) return flow;
  uint32_t leader = static_cast<uint32_t>(std::countr_zero(group));
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  ForEachLane(group, [&](int i) { d[i] = leader; });
  w.SetPredicate(op.a[1], group, 1u << leader);
  return Flow::kNext;
}

void DecodeElect(Decoder& d) {
  const ptx::Operand& target = d.operand(0);
  if (target.kind != ptx::Operand::Kind::kPair) d.Illegal("elect.sync writes d|p");
  d.Push(d.Destination(target.elements[0], Type::kB32));
  d.Push(d.PredicateDestination(target.elements[1]));
  d.PushSource(1, Type::kB32);
  d.op.handler = Elect;
}

Flow ActiveMask(Warp& w, const Op& op, uint32_t mask) {
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  ForEachLane(mask, [&](int i) { d[i] = mask; });
  return Flow::kNext;
}

void DecodeActiveMask(Decoder& d) {
  d.mods.TakeType();
  d.PushDestination(0, Type::kB32);
  d.op.handler = ActiveMask;
}

constexpr uint64_t kReleased = uint64_t{1} << 33;

// Unlike other .sync instructions, lanes may meet at different bar.warp.sync instructions.
Flow WarpSync(Warp& w, const Op& op, uint32_t mask) {
  if (w.split().resume == kReleased) return Flow::kNext;
  uint32_t group = 0;
  uint32_t members = w.Reg<uint32_t>(op.a[0])[std::countr_zero(mask)];
  Flow flow = Gather(w, mask, op.a[0], &group);
  if (flow != Flow::kWait) return flow;
  uint32_t arrived = w.split().mask;
  uint64_t tag = w.split().resume;
  const Kernel& kernel = w.cta.cluster.kernel();
  auto meets = [&](const Split& split) {
    return split.waiting && split.resume == tag && kernel.code[split.pc].handler == WarpSync;
  };
  for (const Split& split : w.splits()) arrived |= meets(split) ? split.mask : 0;
  if (members & w.live & ~arrived) return flow;
  for (Split& split : w.splits()) {
    if (meets(split)) split.resume = kReleased;
  }
  w.Met(members & w.live);
  return Flow::kNext;
}

void DecodeWarpSync(Decoder& d) {
  d.PushSource(0, Type::kB32);
  d.op.handler = WarpSync;
}

}  // namespace

void RegisterWarpOps() {
  FamilyRegistry::Add("shfl.sync", DecodeShuffle);
  FamilyRegistry::Add("vote.sync", DecodeVote);
  FamilyRegistry::Add("match", DecodeMatch);
  FamilyRegistry::Add("redux.sync", DecodeRedux);
  FamilyRegistry::Add("elect.sync", DecodeElect);
  FamilyRegistry::Add("activemask", DecodeActiveMask);
  FamilyRegistry::Add("bar.warp.sync", DecodeWarpSync);
}

}  // namespace tilelang::emulator
