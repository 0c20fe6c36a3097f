// atom and red, on global and shared memory.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"
#include "emulator/instructions/memory_poll.h"

namespace tilelang::emulator {
namespace {

struct AtomicOp {
  AddressOperand address;
  Space space = Space::kGeneric;
  int vector = 1;
  bool returns = false;
};

// Host CTAs run on several threads: a lock for what the host cannot do in one instruction.
std::mutex& WideLock() {
  static std::mutex mutex;
  return mutex;
}

struct Bits128 {
  uint64_t low, high;
};

// Replaces *p by f(*p) atomically; returns the old value.
template <typename T, typename F>
T Update(uint8_t* p, F&& f) {
  if constexpr (sizeof(T) >= 4 && sizeof(T) <= 8) {
    if (reinterpret_cast<uintptr_t>(p) % sizeof(T) == 0) {
      std::atomic_ref<T> cell(*reinterpret_cast<T*>(p));
      T old = cell.load();
      while (!cell.compare_exchange_weak(old, f(old))) {
      }
      return old;
    }
  }
  std::lock_guard<std::mutex> lock(WideLock());
  T old;
  std::memcpy(&old, p, sizeof(T));
  T value = f(old);
  std::memcpy(p, &value, sizeof(T));
  return old;
}

// clang-format off
struct AAdd { template <typename T> T operator()(T a, T b) const { return static_cast<T>(a + b); } };
struct AAnd { template <typename T> T operator()(T a, T b) const { return a & b; } };
struct AOr { template <typename T> T operator()(T a, T b) const { return a | b; } };
struct AXor { template <typename T> T operator()(T a, T b) const { return a ^ b; } };
struct AExch { template <typename T> T operator()(T, T b) const { return b; } };
struct AMin { template <typename T> T operator()(T a, T b) const { return b < a ? b : a; } };
struct AMax { template <typename T> T operator()(T a, T b) const { return a < b ? b : a; } };
struct AInc { template <typename T> T operator()(T a, T b) const { return a >= b ? T{0} : a + 1; } };
struct ADec { template <typename T> T operator()(T a, T b) const { return a == 0 || a > b ? b : a - 1; } };
// clang-format on

struct AddF32 {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    return std::bit_cast<uint32_t>(CanonicalNan(std::bit_cast<float>(a) + std::bit_cast<float>(b)));
  }
};
// atom.add.f32 flushes subnormals in global memory (PTX ISA, atom).
struct AddF32Flush {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    float sum = FlushSubnormal(std::bit_cast<float>(a)) + FlushSubnormal(std::bit_cast<float>(b));
    return std::bit_cast<uint32_t>(FlushSubnormal(CanonicalNan(sum)));
  }
};
struct AddF64 {
  uint64_t operator()(uint64_t a, uint64_t b) const {
    return std::bit_cast<uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
  }
};

enum class HalfAction : uint8_t { kAdd, kMin, kMax };

template <bool kBfloat, HalfAction kAction>
struct OnHalf {
  uint16_t operator()(uint16_t a, uint16_t b) const {
    float x = kBfloat ? Bf16ToF32(a) : F16ToF32(a), y = kBfloat ? Bf16ToF32(b) : F16ToF32(b);
    double value = kAction == HalfAction::kAdd   ? AddToOdd(x, y)
                   : kAction == HalfAction::kMin ? MinMax<false, false>(x, y)
                                                 : MinMax<true, false>(x, y);
    return static_cast<uint16_t>(
        EncodeFloat(kBfloat ? kBf16 : kF16, value, Rounding::kNearestEven, false));
  }
};
template <typename F>
struct OnHalves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    return F()(static_cast<uint16_t>(a), static_cast<uint16_t>(b)) |
           uint32_t{F()(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16))} << 16;
  }
};

template <typename T>
bool Same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Records what one warp's instruction did to memory, and what its first lane saw there.
struct Outcome {
  explicit Outcome(const Warp& w, const AtomicOp& m, uint32_t mask)
      : address(m.address.At(w, __builtin_ctz(mask))) {}

  template <typename T>
  void Add(const T& old, const T& now) {
    if (!seen) std::memcpy(&value, &old, std::min(sizeof(T), sizeof value));
    seen = true;
    changed |= !Same(old, now);
  }
  // An atomic that leaves memory as it is may be the test of a spin loop.
  Flow End(Warp& w, const AtomicOp& m) const {
    if (changed) {
      ++w.changes;
      return Flow::kNext;
    }
    return m.returns ? w.Polls(MemoryPoll(m.space, address, value)) : Flow::kNext;
  }

  uint64_t address, value = 0;
  bool seen = false, changed = false;
};

// Slots: destinations (vector, if it returns), then sources (vector).
template <typename T, typename F>
Flow Atomic(Warp& w, const Op& op, uint32_t mask) {
  const AtomicOp& m = op.Extra<AtomicOp>();
  uint32_t bytes = static_cast<uint32_t>(sizeof(T)) * m.vector;
  Outcome outcome(w, m, mask);
  ForEachLane(mask, [&](int lane) {
    uint8_t* p =
        ThreadAccess(w, lane, m.space, m.address.At(w, lane), bytes, bytes, AccessKind::kAtomic);
    for (int k = 0; k < m.vector; ++k) {
      T b = w.Reg<T>(op.slots[k + (m.returns ? m.vector : 0)])[lane];
      T old = Update<T>(p + k * sizeof(T), [&](T a) { return F()(a, b); });
      outcome.Add<T>(old, F()(old, b));
      if (m.returns && op.slots[k] != kNoSlot) w.Reg<T>(op.slots[k])[lane] = old;
    }
  });
  return outcome.End(w, m);
}

// Slots: d, compare, value.
template <typename T>
Flow CompareSwap(Warp& w, const Op& op, uint32_t mask) {
  const AtomicOp& m = op.Extra<AtomicOp>();
  Outcome outcome(w, m, mask);
  ForEachLane(mask, [&](int lane) {
    uint8_t* p = ThreadAccess(w, lane, m.space, m.address.At(w, lane), sizeof(T), sizeof(T),
                              AccessKind::kAtomic);
    T compare = w.Reg<T>(op.a[1])[lane], value = w.Reg<T>(op.a[2])[lane];
    T old = Update<T>(p, [&](T a) { return Same(a, compare) ? value : a; });
    outcome.Add<T>(old, Same(old, compare) ? value : old);
    if (op.a[0] != kNoSlot) w.Reg<T>(op.a[0])[lane] = old;
  });
  return outcome.End(w, m);
}

// --- decoding
// -------------------------------------------------------------------------------------

template <typename F>
Handler BitsHandler(Type type) {
  if (TypeBits(type) == 32) return Atomic<uint32_t, F>;
  return TypeBits(type) == 64 ? Atomic<uint64_t, F> : nullptr;
}

template <typename F>
Handler OrderedHandler(Type type) {
  switch (type) {
    case Type::kU32:
      return Atomic<uint32_t, F>;
    case Type::kS32:
      return Atomic<int32_t, F>;
    case Type::kU64:
      return Atomic<uint64_t, F>;
    case Type::kS64:
      return Atomic<int64_t, F>;
    default:
      return nullptr;
  }
}

template <HalfAction kAction>
Handler HalfHandlerOf(Type type) {
  switch (type) {
    case Type::kF16:
      return Atomic<uint16_t, OnHalf<false, kAction>>;
    case Type::kBF16:
      return Atomic<uint16_t, OnHalf<true, kAction>>;
    case Type::kF16x2:
      return Atomic<uint32_t, OnHalves<OnHalf<false, kAction>>>;
    case Type::kBF16x2:
      return Atomic<uint32_t, OnHalves<OnHalf<true, kAction>>>;
    default:
      return nullptr;
  }
}

Handler AddHandler(Type type, bool shared) {
  switch (type) {
    case Type::kF32:
      return shared ? Atomic<uint32_t, AddF32> : Atomic<uint32_t, AddF32Flush>;
    case Type::kF64:
      return Atomic<uint64_t, AddF64>;
    case Type::kU32:
    case Type::kS32:
      return Atomic<uint32_t, AAdd>;
    case Type::kU64:
    case Type::kS64:
      return Atomic<uint64_t, AAdd>;
    default:
      return HalfHandlerOf<HalfAction::kAdd>(type);
  }
}

Handler Choose(const std::string& name, Type type, bool shared) {
  if (name == "add") return AddHandler(type, shared);
  if (name == "and") return BitsHandler<AAnd>(type);
  if (name == "or") return BitsHandler<AOr>(type);
  if (name == "xor") return BitsHandler<AXor>(type);
  if (name == "inc") return type == Type::kU32 ? Atomic<uint32_t, AInc> : nullptr;
  if (name == "dec") return type == Type::kU32 ? Atomic<uint32_t, ADec> : nullptr;
  if (name == "min") {
    return IsFloat(type) ? HalfHandlerOf<HalfAction::kMin>(type) : OrderedHandler<AMin>(type);
  }
  if (name == "max") {
    return IsFloat(type) ? HalfHandlerOf<HalfAction::kMax>(type) : OrderedHandler<AMax>(type);
  }
  if (name == "exch") {
    return TypeBits(type) == 128 ? Atomic<Bits128, AExch> : BitsHandler<AExch>(type);
  }
  if (name == "cas") {
    switch (TypeBits(type)) {
      case 16:
        return CompareSwap<uint16_t>;
      case 32:
        return CompareSwap<uint32_t>;
      case 64:
        return CompareSwap<uint64_t>;
      case 128:
        return CompareSwap<Bits128>;
      default:
        return nullptr;
    }
  }
  return nullptr;
}

// Notes whether the order of CTAs matters, and whether they act on it.
void MarkOrder(Decoder& d, const std::string& name, Type type, bool returns) {
  // Compilers write atom for reductions, too: nobody reads the register of its result.
  const bool is_read = returns && d.function().IsResultRead(d.operand(0));
  if (is_read || name == "exch" || name == "cas") return d.MarkCommunicates();
  // Integer reductions commute: any order of CTAs gives the same memory. Counters do so only if all
  // have one bound.
  if (IsFloat(type) || name == "inc" || name == "dec") d.MarkUnordered();
}

void DecodeAtomic(Decoder& d, bool returns) {
  AtomicOp m;
  m.returns = returns;
  std::string order = d.mods.TakeOneOf({"relaxed", "acquire", "release", "acq_rel"});
  std::string scope = d.mods.TakeOneOf({"cta", "cluster", "gpu", "sys"});
  d.op.order = kStrong;
  if (order.starts_with("acq")) d.op.order |= kAcquire;
  if (order.starts_with("rel") && order != "relaxed") d.op.order |= kRelease;
  if (order == "acq_rel") d.op.order |= kRelease;
  d.op.order |= ScopeBit(scope);
  m.space = d.mods.TakeSpace();
  d.mods.Take("noftz");
  if (d.mods.Take("L2::cache_hint") && m.space == Space::kShared) {
    d.Illegal("'" + d.inst.Spelling() + "': .L2::cache_hint is for global memory");
  }
  m.vector = d.mods.TakeVector();
  std::string name =
      d.mods.TakeOneOf({"and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"});
  Type type = d.mods.TakeType();
  d.op.handler = Choose(name, type, m.space == Space::kShared);
  if (!d.op.handler) d.Unsupported();
  size_t first = returns ? 1 : 0;
  m.address = d.Address(d.operand(first));
  const auto registers = [&](const ptx::Operand& operand) {
    return m.vector > 1 ? d.Vector(operand, m.vector, "registers") : std::vector{&operand};
  };
  if (returns) {
    for (const ptx::Operand* element : registers(d.operand(0))) {
      bool sink = element->kind == ptx::Operand::Kind::kSink;
      d.Push(sink ? kNoSlot : d.Destination(*element, type));
    }
  } else if (name == "cas") {
    d.Illegal("red has no .cas");
  }
  for (const ptx::Operand* element : registers(d.operand(first + 1))) {
    d.Push(d.Source(*element, type));
  }
  if (name == "cas") d.PushSource(first + 2, type);
  if (m.space != Space::kShared) MarkOrder(d, name, type, returns);
  d.MakeExtra<AtomicOp>(m);
}

void DecodeAtom(Decoder& d) { DecodeAtomic(d, true); }
void DecodeRed(Decoder& d) { DecodeAtomic(d, false); }

}  // namespace

void RegisterAtomics() {
  FamilyRegistry::Add("atom", DecodeAtom);
  FamilyRegistry::Add("red", DecodeRed);
}

}  // namespace tilelang::emulator
