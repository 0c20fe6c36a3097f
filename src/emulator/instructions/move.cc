// mov with packing and unpacking, selp, slct, cvta, isspacep.
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

struct Wide128 {
  uint64_t low, high;
};

struct Copy {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};

Handler CopyOf(int bits) {
  switch (bits) {
    case 8:
      return Unary<Copy, uint8_t>();
    case 16:
      return Unary<Copy, uint16_t>();
    case 32:
      return Unary<Copy, uint32_t>();
    case 64:
      return Unary<Copy, uint64_t>();
    default:
      return Unary<Copy, Wide128>();
  }
}

Flow MovePredicate(Warp& w, const Op& op, uint32_t mask) {
  w.SetPredicate(op.a[0], mask, w.Predicate(op.a[1]));
  return Flow::kNext;
}

// flags: number of elements; slots: the whole, then the elements (kNoSlot: sink).
template <typename W, typename E>
Flow Unpack(Warp& w, const Op& op, uint32_t mask) {
  const W* whole = w.Reg<W>(op.slots[0]);
  W values[kLanes];  // an element may be the register being unpacked
  std::memcpy(values, whole, sizeof values);
  for (uint32_t k = 0; k < op.flags; ++k) {
    if (op.slots[1 + k] == kNoSlot) continue;
    E* element = w.Reg<E>(op.slots[1 + k]);
    Lanes(mask, [&](int i) {
      std::memcpy(&element[i], reinterpret_cast<const char*>(&values[i]) + k * sizeof(E),
                  sizeof(E));
    });
  }
  return Flow::kNext;
}

template <typename W, typename E>
Flow Pack(Warp& w, const Op& op, uint32_t mask) {
  W values[kLanes];
  for (uint32_t k = 0; k < op.flags; ++k) {
    const E* element = w.Reg<E>(op.slots[1 + k]);
    for (int i = 0; i < kLanes; ++i) {
      std::memcpy(reinterpret_cast<char*>(&values[i]) + k * sizeof(E), &element[i], sizeof(E));
    }
  }
  W* whole = w.Reg<W>(op.slots[0]);
  Lanes(mask, [&](int i) { whole[i] = values[i]; });
  return Flow::kNext;
}

template <typename W>
Handler PackingOf(int element_bits, bool pack) {
  switch (element_bits) {
    case 8:
      return pack ? Pack<W, uint8_t> : Unpack<W, uint8_t>;
    case 16:
      return pack ? Pack<W, uint16_t> : Unpack<W, uint16_t>;
    case 32:
      return pack ? Pack<W, uint32_t> : Unpack<W, uint32_t>;
    case 64:
      return pack ? Pack<W, uint64_t> : Unpack<W, uint64_t>;
    default:
      return nullptr;
  }
}

Type BitsType(int bits) {
  switch (bits) {
    case 8:
      return Type::kB8;
    case 16:
      return Type::kB16;
    case 32:
      return Type::kB32;
    case 64:
      return Type::kB64;
    default:
      return Type::kNone;
  }
}

void DecodePacking(Decoder& d, Type type, const ptx::Operand& whole, const ptx::Operand& list,
                   bool pack) {
  int count = static_cast<int>(list.elements.size());
  int bits = TypeBits(type);
  int element_bits = count ? bits / count : 0;
  switch (bits) {
    case 16:
      d.op.handler = PackingOf<uint16_t>(element_bits, pack);
      break;
    case 32:
      d.op.handler = PackingOf<uint32_t>(element_bits, pack);
      break;
    case 64:
      d.op.handler = PackingOf<uint64_t>(element_bits, pack);
      break;
    case 128:
      d.op.handler = PackingOf<Wide128>(element_bits, pack);
      break;
    default:
      break;
  }
  Type element = BitsType(element_bits);
  if (!d.op.handler || count * element_bits != bits || element == Type::kNone) {
    d.Illegal("cannot pack " + std::to_string(count) + " elements into " + std::to_string(bits) +
              " bits");
  }
  d.op.flags = static_cast<uint16_t>(count);
  d.Push(pack ? d.Destination(whole, type) : d.Source(whole, type));
  for (const ptx::Operand& operand : list.elements) {
    bool sink = operand.kind == ptx::Operand::Kind::kSink;
    d.Push(sink && !pack ? kNoSlot
           : pack        ? d.Source(operand, element)
                         : d.Destination(operand, element));
  }
}

// mov.v2, mov.v4. flags: number of elements; slots: destinations, then sources. All sources are
// read first: `mov.v2.u32 {a, b}, {b, a}` exchanges.
template <typename T>
Flow MoveElements(Warp& w, const Op& op, uint32_t mask) {
  T values[4][kLanes];
  for (uint32_t k = 0; k < op.flags; ++k) {
    std::memcpy(values[k], w.Reg<T>(op.slots[op.flags + k]), sizeof values[k]);
  }
  for (uint32_t k = 0; k < op.flags; ++k) {
    T* d = w.Reg<T>(op.slots[k]);
    Lanes(mask, [&](int i) { d[i] = values[k][i]; });
  }
  return Flow::kNext;
}

void DecodeMoveElements(Decoder& d, int count, Type type) {
  const auto targets = d.Elements(d.operand(0)), sources = d.Elements(d.operand(1));
  const size_t n = static_cast<size_t>(count);
  if (targets.size() != n || sources.size() != n) d.Illegal("vectors of another length");
  d.op.handler = TypeBits(type) == 64 ? MoveElements<uint64_t> : MoveElements<uint32_t>;
  if (TypeBits(type) < 32) d.Unsupported();
  d.op.flags = static_cast<uint16_t>(count);
  for (const ptx::Operand* target : targets) d.Push(d.Destination(*target, type));
  for (const ptx::Operand* source : sources) d.Push(d.Source(*source, type));
}

void DecodeMov(Decoder& d) {
  const int count = d.mods.TakeVector();
  Type type = d.mods.TakeType();
  if (count > 1) return DecodeMoveElements(d, count, type);
  const ptx::Operand& target = d.operand(0);
  const ptx::Operand& source = d.operand(1);
  if (type == Type::kPred) {
    d.Push(d.PredicateDestination(target));
    d.Push(d.Predicate(source));
    d.op.handler = MovePredicate;
  } else if (source.kind == ptx::Operand::Kind::kVector) {
    DecodePacking(d, type, target, source, true);
  } else if (target.kind == ptx::Operand::Kind::kVector) {
    DecodePacking(d, type, source, target, false);
  } else {
    d.op.handler = CopyOf(TypeBits(type));
    PushUniform(d, type, 1);
  }
}

// --- select -------------------------------------------------------------------------------------

template <typename T>
[[gnu::always_inline]] inline Flow SelectBody(Warp& w, const Op& op, uint32_t mask) {
  T* d = w.Reg<T>(op.a[0]);
  const T* a = w.Reg<T>(op.a[1]);
  const T* b = w.Reg<T>(op.a[2]);
  uint32_t condition = w.Predicate(op.a[3]);
  Lanes(mask, [=](int i)
                  __attribute__((always_inline)) { d[i] = (condition & (1u << i)) ? a[i] : b[i]; });
  return Flow::kNext;
}
template <typename T>
Flow SelectBase(Warp& w, const Op& op, uint32_t mask) {
  return SelectBody<T>(w, op, mask);
}
template <typename T>
TL_WIDE_TARGET Flow SelectWide(Warp& w, const Op& op, uint32_t mask) {
  return SelectBody<T>(w, op, mask);
}
template <typename T>
Handler SelectOf() {
  return HasWideTarget() ? SelectWide<T> : SelectBase<T>;
}

Flow SelectPredicate(Warp& w, const Op& op, uint32_t mask) {
  uint32_t condition = w.Predicate(op.a[3]);
  w.SetPredicate(op.a[0], mask,
                 (w.Predicate(op.a[1]) & condition) | (w.Predicate(op.a[2]) & ~condition));
  return Flow::kNext;
}

void DecodeSelp(Decoder& d) {
  Type type = d.mods.TakeType();
  switch (TypeBits(type)) {
    case 1:
      d.op.handler = SelectPredicate;
      break;
    case 16:
      d.op.handler = SelectOf<uint16_t>();
      break;
    case 32:
      d.op.handler = SelectOf<uint32_t>();
      break;
    case 64:
      d.op.handler = SelectOf<uint64_t>();
      break;
    default:
      d.Unsupported("selp with this type");
  }
  d.PushDestination(0, type);
  d.PushSource(1, type);
  d.PushSource(2, type);
  d.Push(d.Predicate(d.operand(3)));
}

// slct: a if c >= 0 else b; -0.0 counts as >= 0, NaN does not.
template <typename C>
struct SelectSign {
  template <typename T>
  T operator()(T a, T b, C c) const {
    return c >= 0 ? a : b;
  }
};

template <typename T>
Handler SlctOf(Type condition) {
  return condition == Type::kF32 ? Ternary<SelectSign<float>, T, T, T, float>()
                                 : Ternary<SelectSign<int32_t>, T, T, T, int32_t>();
}

void DecodeSlct(Decoder& d) {
  d.mods.Take("ftz");  // flushing keeps the sign of zero, so it does not change the choice
  Type type = d.mods.TakeType(), condition = d.mods.TakeType();
  switch (TypeBits(type)) {
    case 16:
      d.op.handler = SlctOf<uint16_t>(condition);
      break;
    case 32:
      d.op.handler = SlctOf<uint32_t>(condition);
      break;
    case 64:
      d.op.handler = SlctOf<uint64_t>(condition);
      break;
    default:
      d.Unsupported("slct with this type");
  }
  PushUniform(d, type, 2);
  d.PushSource(3, condition);
}

// --- addresses ----------------------------------------------------------------------------------

uint64_t Window(Space space) {
  switch (space) {
    case Space::kShared:
      return kSharedWindow;
    case Space::kLocal:
      return kLocalWindow;
    case Space::kParam:
      return kParamWindow;
    case Space::kConst:
      return kConstWindow;
    default:
      return 0;
  }
}

Flow AddWindow(Warp& w, const Op& op, uint32_t mask) {
  uint64_t* d = w.Reg<uint64_t>(op.a[0]);
  const uint64_t* a = w.Reg<uint64_t>(op.a[1]);
  uint64_t offset = static_cast<uint64_t>(op.immediate);
  Lanes(mask, [=](int i) { d[i] = a[i] + offset; });
  return Flow::kNext;
}

void DecodeCvta(Decoder& d) {
  bool to = d.mods.Take("to");
  Space space = d.mods.TakeSpace();
  Type type = d.mods.TakeType();
  if (TypeBits(type) != 64) d.Unsupported("cvta with 32-bit addresses");
  d.op.immediate = static_cast<int64_t>(to ? -Window(space) : Window(space));
  d.op.handler = d.op.immediate ? AddWindow : CopyOf(64);
  PushUniform(d, Type::kU64, 1);
}

Flow IsSpace(Warp& w, const Op& op, uint32_t mask) {
  const uint64_t* a = w.Reg<uint64_t>(op.a[1]);
  uint64_t window = static_cast<uint64_t>(op.immediate);
  uint32_t result = 0;
  ForEachLane(mask, [&](int i) {
    uint64_t high = a[i] & ~uint64_t{0xFFFFFFFF};
    bool inside = window ? high == window : (a[i] >> kBufferShift) != 0;
    result |= inside ? 1u << i : 0;
  });
  w.SetPredicate(op.a[0], mask, result);
  return Flow::kNext;
}

void DecodeIsSpace(Decoder& d) {
  d.op.immediate = static_cast<int64_t>(Window(d.mods.TakeSpace()));
  d.Push(d.PredicateDestination(d.operand(0)));
  d.PushSource(1, Type::kU64);
  d.op.handler = IsSpace;
}

}  // namespace

void RegisterMove() {
  FamilyRegistry::Add("mov", DecodeMov);
  FamilyRegistry::Add("selp", DecodeSelp);
  FamilyRegistry::Add("slct", DecodeSlct);
  FamilyRegistry::Add("cvta", DecodeCvta);
  FamilyRegistry::Add("isspacep", DecodeIsSpace);
}

}  // namespace tilelang::emulator
