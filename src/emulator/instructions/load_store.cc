// ld and st in every state space, with vectors and widening; prefetches.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/unwritten_marks.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/memory_access.h"
#include "emulator/instructions/memory_poll.h"

namespace tilelang::emulator {
namespace {

struct Wide128 {
  uint64_t low, high;
};

struct MemoryOp {
  AddressOperand address;
  Space space = Space::kGeneric;
  uint8_t vector = 1;
  uint8_t element_bytes = 4;
  uint8_t register_bytes = 4;
  bool is_signed = false;
  uint64_t used = 0;   // bit i: the program uses byte i of what a load reads; 0: all
  bool polls = false;  // volatile, relaxed or acquire load: perhaps a spin loop
};

// Returns whether all N bytes of the shadow say "written".
template <size_t N>
[[gnu::always_inline]] inline bool Written(const uint8_t* shadow) {
  if constexpr (N >= 8) {
    uint64_t all = 0x0101010101010101, word;
    for (size_t i = 0; i < N; i += 8) {
      std::memcpy(&word, shadow + i, 8);
      all &= word;
    }
    return all == 0x0101010101010101;
  } else {
    for (size_t i = 0; i < N; ++i) {
      if (shadow[i] != 1) return false;
    }
    return true;
  }
}

// Accesses the bytes of one lane's load that the program uses. Compilers join neighbouring loads
// over bytes that nothing writes, or that other threads write, and make vectors of four of three
// elements.
void LoadUsed(Warp& w, const MemoryOp& m, int lane, uint64_t address) {
  for (uint64_t rest = m.used; rest != 0;) {
    const int first = std::countr_zero(rest);
    const int count = std::countr_one(rest >> first);
    ThreadAccess(w, lane, m.space, address + first, count, 1, AccessKind::kLoad);
    rest &= rest + (uint64_t{1} << first);
  }
}

// Returns whether all bytes that the program uses of an element at byte `first` of a load were
// written.
bool IsElementDefined(Warp& w, const MemoryOp& m, uint64_t address, uint32_t first,
                      uint32_t bytes) {
  if (!m.used) return IsDefined(w, m.space, address + first, bytes);
  for (uint32_t i = first; i < first + bytes; ++i) {
    if ((m.used >> i & 1) && !IsDefined(w, m.space, address + i, 1)) return false;
  }
  return true;
}

// The mark of bytes of shared memory that hold the value of a register that nothing has written;
// 0: of others.
uint8_t MarkAt(Warp& w, Space space, uint64_t address, uint32_t bytes) {
  if (!IsShared(space, address)) return 0;
  Cta* owner = w.cta.cluster.SharedOwner(static_cast<uint32_t>(address));
  if (!owner) return 0;
  const uint8_t* marks = owner->shared.written(static_cast<uint32_t>(address) & 0xFFFFFF);
  const auto found =
      std::find_if(marks, marks + bytes, [](uint8_t mark) { return mark >= kOfRegister; });
  return found == marks + bytes ? 0 : *found;
}

// Returns how many bytes of a load have to exist: up to the last element that the program uses. A
// vector is aligned, so that no GPU faults on the rest of one that begins in an allocation.
uint32_t Reach(const MemoryOp& m, uint32_t element_bytes) {
  const auto used = static_cast<uint32_t>(std::bit_width(m.used));
  return used == 0 ? element_bytes * m.vector
                   : (used + element_bytes - 1) / element_bytes * element_bytes;
}

// The elements of one lane, wherever they are.
template <typename F>
void ForEachElement(Warp& w, const Op& op, int lane, uint64_t address, uint32_t bytes, F&& body) {
  const MemoryOp& m = op.Extra<MemoryOp>();
  const uint32_t all = bytes * m.vector;
  const AccessKind kind = m.used ? AccessKind::kProbe : AccessKind::kLoad;
  const uint32_t reach = Reach(m, bytes);
  const uint8_t* p = ThreadAccess(w, lane, m.space, address, reach, all, kind);
  if (m.used) LoadUsed(w, m, lane, address);
  for (uint32_t k = 0; k * bytes < reach; ++k) {
    if (op.slots[k] == kNoSlot) continue;
    body(op.slots[k], p + k * bytes);
    if (const uint8_t mark = MarkAt(w, m.space, address + k * bytes, bytes)) {
      LoadsUnwritten(w, op.slots[k], lane, mark);
    }
    if (IsElementDefined(w, m, address, k * bytes, bytes)) continue;
    const bool shared = IsShared(m.space, address);
    w.register_checks().LoadsUndefined(op, op.slots[k], lane, address + k * bytes, shared);
  }
}

template <typename R, int N>
Flow SlowLoad(Warp& w, const Op& op, uint32_t mask, const WarpAddresses& addresses) {
  ForEachLane(mask, [&](int lane) {
    ForEachElement(
        w, op, lane, addresses.value[lane], sizeof(R),
        [&](uint32_t slot, const uint8_t* p) { std::memcpy(&w.Reg<R>(slot)[lane], p, sizeof(R)); });
  });
  return Flow::kNext;
}

template <typename R, int N>
Flow Load(Warp& w, const Op& op, uint32_t mask) {
  const MemoryOp& m = op.Extra<MemoryOp>();
  constexpr uint32_t kBytes = sizeof(R) * N;
  WarpAddresses addresses;
  LoadAddresses(w, m.address, &addresses);
  AddressRange range = RangeOf(addresses, mask, kBytes);
  FastBase base = FindFast(w, m.space, range, kBytes, false);
  const bool holes = m.used && (base.written || w.cta.cluster.launch.observer);
  if (!base.host || holes) return SlowLoad<R, N>(w, op, mask, addresses);
  if (const uint8_t* shadow = base.written) {
    bool written = true;
    if (range.contiguous) {
      written = Written<kBytes * 32>(shadow);
    } else {
      ForEachLane(mask, [&](int i) {
        written &= Written<kBytes>(shadow + (addresses.value[i] - range.low));
      });
    }
    if (!written) return SlowLoad<R, N>(w, op, mask, addresses);
  }
  Observe(w, base, addresses, range, mask, kBytes, AccessKind::kRead);
  if (N == 1 && range.contiguous) {
    std::memcpy(w.Reg<R>(op.a[0]), base.host, sizeof(R) * kLanes);
    return Flow::kNext;
  }
  R* registers[N];
  for (int k = 0; k < N; ++k) {
    registers[k] = op.slots[k] == kNoSlot ? nullptr : w.Reg<R>(op.slots[k]);
  }
  ForEachLane(mask, [&](int i) {
    const uint8_t* p = base.host + (addresses.value[i] - range.low);
    for (int k = 0; k < N; ++k) {
      if (registers[k]) std::memcpy(&registers[k][i], p + k * sizeof(R), sizeof(R));
    }
  });
  return Flow::kNext;
}

template <typename R, int N>
Flow Store(Warp& w, const Op& op, uint32_t mask) {
  const MemoryOp& m = op.Extra<MemoryOp>();
  constexpr uint32_t kBytes = sizeof(R) * N;
  WarpAddresses addresses;
  LoadAddresses(w, m.address, &addresses);
  AddressRange range = RangeOf(addresses, mask, kBytes);
  FastBase base = FindFast(w, m.space, range, kBytes, true);
  const R* registers[N];
  for (int k = 0; k < N; ++k) registers[k] = w.Reg<R>(op.slots[k]);
  if (!base.host) {
    ForEachLane(mask, [&](int lane) {
      uint8_t value[kBytes];
      for (int k = 0; k < N; ++k)
        std::memcpy(value + k * sizeof(R), &registers[k][lane], sizeof(R));
      StoreValue(w, lane, m.space, addresses.value[lane], value, kBytes);
    });
    return Flow::kNext;
  }
  if (N == 1 || !w.cta.cluster.launch.observer) {
    Observe(w, base, addresses, range, mask, kBytes, AccessKind::kWrite,
            reinterpret_cast<const uint8_t*>(registers[0]));
  } else {
    uint8_t values[kBytes * kLanes];
    for (int k = 0; k < N; ++k) {
      for (int i = 0; i < kLanes; ++i) {
        std::memcpy(values + i * kBytes + k * sizeof(R), &registers[k][i], sizeof(R));
      }
    }
    Observe(w, base, addresses, range, mask, kBytes, AccessKind::kWrite, values);
  }
  uint8_t* shadow = base.written;
  if (N == 1 && range.contiguous) {
    std::memcpy(base.host, registers[0], sizeof(R) * kLanes);
    if (shadow) std::memset(shadow, 1, sizeof(R) * kLanes);
    return Flow::kNext;
  }
  ForEachLane(mask, [&](int i) {
    uint64_t at = addresses.value[i] - range.low;
    for (int k = 0; k < N; ++k) {
      std::memcpy(base.host + at + k * sizeof(R), &registers[k][i], sizeof(R));
    }
    if (shadow) std::memset(shadow + at, 1, kBytes);
  });
  return Flow::kNext;
}

// --- element narrower than the register
// -----------------------------------------------------------

Flow LoadWidening(Warp& w, const Op& op, uint32_t mask) {
  const MemoryOp& m = op.Extra<MemoryOp>();
  const auto widen = [&](int lane, uint32_t slot, const uint8_t* p) {
    uint64_t value = 0;
    std::memcpy(&value, p, m.element_bytes);
    int unused = 64 - 8 * m.element_bytes;
    if (m.is_signed) {
      value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
    }
    std::memcpy(w.Reg<uint8_t>(slot) + size_t{m.register_bytes} * lane, &value, m.register_bytes);
  };
  ForEachLane(mask, [&](int lane) {
    ForEachElement(w, op, lane, m.address.At(w, lane), m.element_bytes,
                   [&](uint32_t slot, const uint8_t* p) { widen(lane, slot, p); });
  });
  return Flow::kNext;
}

Flow StoreNarrowing(Warp& w, const Op& op, uint32_t mask) {
  const MemoryOp& m = op.Extra<MemoryOp>();
  uint32_t bytes = uint32_t{m.element_bytes} * m.vector;
  ForEachLane(mask, [&](int lane) {
    uint8_t value[32];
    for (int k = 0; k < m.vector; ++k) {
      std::memcpy(value + k * m.element_bytes,
                  w.Reg<uint8_t>(op.slots[k]) + size_t{m.register_bytes} * lane, m.element_bytes);
    }
    StoreValue(w, lane, m.space, m.address.At(w, lane), value, bytes);
  });
  return Flow::kNext;
}

// Kernel parameters at fixed offsets: one value for all lanes.
template <typename R, int N>
Flow LoadParameter(Warp& w, const Op& op, uint32_t mask) {
  const uint8_t* p = w.cta.cluster.launch.params.data() + op.immediate;
  for (int k = 0; k < N; ++k) {
    if (op.slots[k] == kNoSlot) continue;
    R value;
    std::memcpy(&value, p + k * sizeof(R), sizeof(R));
    R* target = w.Reg<R>(op.slots[k]);
    Lanes(mask, [=](int i) { target[i] = value; });
  }
  return Flow::kNext;
}

// Loads of this kind may be polls of a flag: let the others run.
template <Handler kLoad>
Flow Polling(Warp& w, const Op& op, uint32_t mask) {
  const MemoryOp& m = op.Extra<MemoryOp>();
  const int lane = __builtin_ctz(mask);
  const uint64_t address = m.address.At(w, lane);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (Flow flow = kLoad(w, op, mask); flow != Flow::kNext) return flow;
  uint64_t value = 0;
  if (op.slots[0] != kNoSlot) {
    const size_t bytes = std::min<size_t>(m.register_bytes, sizeof value);
    std::memcpy(&value, w.Reg<uint8_t>(op.slots[0]) + size_t{m.register_bytes} * lane, bytes);
  }
  return w.Polls(MemoryPoll(m.space, address, value));
}

// --- decoding
// -------------------------------------------------------------------------------------

enum class Form : uint8_t { kLoad, kPoll, kParameter, kStore };

template <typename R, int N>
Handler HandlerOf(Form form) {
  switch (form) {
    case Form::kLoad:
      return Load<R, N>;
    case Form::kPoll:
      return Polling<Load<R, N>>;
    case Form::kParameter:
      return LoadParameter<R, N>;
    default:
      return Store<R, N>;
  }
}

template <typename R>
Handler VectorHandler(int vector, Form form) {
  switch (vector) {
    case 1:
      return HandlerOf<R, 1>(form);
    case 2:
      return HandlerOf<R, 2>(form);
    case 4:
      return HandlerOf<R, 4>(form);
    default:
      return sizeof(R) <= 4 ? HandlerOf<R, 8>(form) : nullptr;
  }
}

Handler SameWidthHandler(int bytes, int vector, Form form) {
  switch (bytes) {
    case 1:
      return VectorHandler<uint8_t>(vector, form);
    case 2:
      return VectorHandler<uint16_t>(vector, form);
    case 4:
      return VectorHandler<uint32_t>(vector, form);
    case 8:
      return VectorHandler<uint64_t>(vector, form);
    default:
      return vector == 1 ? HandlerOf<Wide128, 1>(form) : nullptr;
  }
}

// Cache hints change nothing here.
void TakeCacheHints(Decoder& d) {
  for (const char* name : {"ca",
                           "cg",
                           "cs",
                           "lu",
                           "cv",
                           "wb",
                           "wt",
                           "nc",
                           "unified",
                           "L1::evict_normal",
                           "L1::evict_unchanged",
                           "L1::evict_first",
                           "L1::evict_last",
                           "L1::no_allocate",
                           "L2::evict_normal",
                           "L2::evict_first",
                           "L2::evict_last",
                           "L2::64B",
                           "L2::128B",
                           "L2::256B",
                           "L2::cache_hint"}) {
    d.mods.Take(name);
  }
}

// Memory order and scope; true if other threads may be communicated with.
bool TakeOrder(Decoder& d, bool* cta_scope) {
  uint8_t order = 0;
  for (const char* name : {"relaxed", "volatile", "mmio"}) order |= d.mods.Take(name) ? kStrong : 0;
  if (d.mods.Take("acquire")) order |= kStrong | kAcquire;
  if (d.mods.Take("release")) order |= kStrong | kRelease;
  d.mods.Take("weak");
  std::string scope = d.mods.TakeOneOf({"cta", "cluster", "gpu", "sys"});
  *cta_scope = scope == "cta";
  if (order) order |= ScopeBit(scope);
  d.op.order = order;
  return order != 0;
}

void CheckSpace(Decoder& d, const MemoryOp& m) {
  const Space symbol = m.address.symbol_space;
  if (symbol != Space::kGeneric && m.space != Space::kGeneric && symbol != m.space) {
    d.Illegal("'" + d.inst.Spelling() + "' accesses a variable in another state space");
  }
}

// MemoryOp::used of a load: by its .pragma, without what goes to `_`, and without elements of a
// vector in registers that no other instruction names. NVVM does not mark all vectors of four that
// it makes of three elements.
uint64_t UsedBytes(Decoder& d, const MemoryOp& m,
                   const std::vector<const ptx::Operand*>& elements) {
  const uint64_t element = (uint64_t{1} << m.element_bytes) - 1;
  uint64_t all = 0, used = 0;
  for (size_t k = 0; k < elements.size(); ++k) {
    const uint64_t bytes = element << k * m.element_bytes;
    all |= bytes;
    const bool reads = m.vector == 1 ? elements[k]->kind != ptx::Operand::Kind::kSink
                                     : d.function().IsResultRead(*elements[k]);
    if (reads) used |= bytes;
  }
  if (d.inst.used_bytes) used &= d.inst.used_bytes;
  return used == all ? 0 : used;
}

void DecodeAccess(Decoder& d, bool store) {
  bool cta_scope = false;
  bool strong = TakeOrder(d, &cta_scope);
  MemoryOp m;
  m.space = d.mods.TakeSpace();
  TakeCacheHints(d);
  m.vector = static_cast<uint8_t>(d.mods.TakeVector());
  Type type = d.mods.TakeType();
  if (type == Type::kNone || type == Type::kPred)
    d.Illegal("'" + d.inst.Spelling() + "' needs a type");
  m.element_bytes = static_cast<uint8_t>(TypeBits(type) / 8);
  m.is_signed = IsSigned(type) && !IsFloat(type);
  const ptx::Operand& address = d.operand(store ? 0 : 1);
  m.address = d.Address(address);
  if (m.address.symbol_space == Space::kLocal && m.space == Space::kParam) m.space = Space::kLocal;
  CheckSpace(d, m);
  const ptx::Operand& data = d.operand(store ? 1 : 0);
  auto elements = d.Elements(data);
  if (static_cast<int>(elements.size()) != m.vector) {
    d.Illegal("'" + d.inst.Spelling() + "' with " + std::to_string(elements.size()) + " registers");
  }
  int register_bits = TypeBits(type);
  for (const ptx::Operand* element : elements) {
    bool sink = element->kind == ptx::Operand::Kind::kSink && !store && m.vector > 1;
    d.Push(sink    ? kNoSlot
           : store ? d.Source(*element, type, true)
                   : d.Destination(*element, type, true));
    if (int bits = d.RegisterBits(*element)) register_bits = bits;
  }
  for (const ptx::Operand* element : elements) {
    int bits = d.RegisterBits(*element);
    if (bits && bits != register_bits)
      d.Illegal("the registers of a vector must have equal widths");
  }
  m.register_bytes = static_cast<uint8_t>(register_bits / 8);
  m.polls = strong && !store;
  if (!store) m.used = UsedBytes(d, m, elements);
  bool outside = m.space == Space::kGlobal || m.space == Space::kGeneric;
  const bool matters = store || std::any_of(elements.begin(), elements.end(), [&](const auto* e) {
                         return d.function().IsResultRead(*e);
                       });
  if (strong && outside && !cta_scope && matters) d.MarkCommunicates();
  d.MakeExtra<MemoryOp>(m);
  bool narrow = m.register_bytes != m.element_bytes;
  Form form = store ? Form::kStore : m.polls ? Form::kPoll : Form::kLoad;
  if (!store && !narrow && m.space == Space::kParam && m.address.symbol_space == Space::kParam) {
    form = Form::kParameter;
    d.op.immediate = d.ParameterOffset(address, uint32_t{m.element_bytes} * m.vector);
  }
  d.op.handler = narrow ? (store     ? StoreNarrowing
                           : m.polls ? Polling<LoadWidening>
                                     : LoadWidening)
                        : SameWidthHandler(m.element_bytes, m.vector, form);
  if (!d.op.handler) d.Unsupported();
}

void DecodeLoad(Decoder& d) { DecodeAccess(d, false); }
void DecodeStore(Decoder& d) { DecodeAccess(d, true); }

Flow Nothing(Warp&, const Op&, uint32_t) { return Flow::kNext; }

// --- st.bulk: zeros over a region of shared memory
// ----------------------------------------------

constexpr uint64_t kLargestBulk = 16777216;  // bytes (PTX ISA, st.bulk)

void CheckBulkSize(const Issuer& issuer, uint64_t bytes) {
  if (bytes % 8 == 0 && bytes <= kLargestBulk) return;
  Fail(issuer, "illegal-operand",
       "st.bulk of " + std::to_string(bytes) + " bytes: the size must be a multiple of 8 up to " +
           std::to_string(kLargestBulk));
}

Flow StoreBulk(Warp& w, const Op& op, uint32_t mask) {
  const auto& m = op.Extra<MemoryOp>();
  const uint64_t* sizes = w.Reg<uint64_t>(op.a[0]);
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    CheckBulkSize(issuer, sizes[lane]);
    const auto bytes = static_cast<uint32_t>(sizes[lane]);
    const uint32_t to = ToSharedAddress(w, lane, m.space, m.address.At(w, lane));
    if (to >> 24 != w.cta.rank) {
      Fail(issuer, "out-of-bounds", "st.bulk can write only the shared memory of its own CTA", to,
           "shared memory");
    }
    if (bytes == 0) return;
    const std::vector<uint8_t> zeros(bytes);
    w.stored = zeros.data();
    std::memset(SharedAccess(w.cta.cluster, issuer, to, bytes, 8, AccessKind::kWrite), 0, bytes);
    w.stored = nullptr;
  });
  return Flow::kNext;
}

void DecodeStoreBulk(Decoder& d) {
  d.mods.Take("weak");
  MemoryOp m;
  m.space = d.mods.TakeSpace();
  m.address = d.Address(d.operand(0));
  CheckSpace(d, m);
  d.PushSource(1, Type::kU64);
  if (d.Integer(d.operand(2)) != 0) d.Illegal("the last operand of st.bulk must be 0");
  d.MakeExtra<MemoryOp>(m);
  d.op.handler = StoreBulk;
}

// Prefetches and hints: no effect on values.
void DecodeHint(Decoder& d) {
  d.mods.TakeSpace();
  for (const char* name : {"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"}) {
    d.mods.Take(name);
  }
  d.Address(d.operand(0));
  const bool sized = d.inst.opcode == "discard" || d.inst.opcode == "applypriority";
  if (sized && d.Integer(d.operand(1)) != 128) d.Illegal("the size must be 128 bytes");
  d.op.handler = Nothing;
}

Flow ZeroPolicy(Warp& w, const Op& op, uint32_t mask) {
  uint64_t* d = w.Reg<uint64_t>(op.a[0]);
  Lanes(mask, [=](int i) { d[i] = 0; });
  return Flow::kNext;
}

// Cache policies are opaque: all are 0 here.
void DecodeCreatePolicy(Decoder& d) {
  d.mods.TakeSpace();
  const std::string form = d.mods.TakeOneOf({"fractional", "range", "cvt"});
  d.mods.Take("L2");
  while (!d.mods.TakePrefix("L2::").empty()) {
  }
  d.mods.TakeType();
  d.PushDestination(0, Type::kB64);
  if (form == "fractional" && d.Has(1)) d.Source(d.operand(1), Type::kF32);
  if (form == "cvt") d.Source(d.operand(1), Type::kB64);
  if (form == "range") {
    d.Address(d.operand(1));
    d.Source(d.operand(2), Type::kU32);
    d.Source(d.operand(3), Type::kU32);
  }
  d.op.handler = ZeroPolicy;
}

}  // namespace

void RegisterMemory() {
  FamilyRegistry::Add("ld", DecodeLoad);
  FamilyRegistry::Add("ldu", DecodeLoad);
  FamilyRegistry::Add("st", DecodeStore);
  FamilyRegistry::Add("st.bulk", DecodeStoreBulk);
  FamilyRegistry::Add("prefetch", DecodeHint);
  FamilyRegistry::Add("prefetchu", DecodeHint);
  FamilyRegistry::Add("discard", DecodeHint);
  FamilyRegistry::Add("applypriority", DecodeHint);
  FamilyRegistry::Add("createpolicy", DecodeCreatePolicy);
}

}  // namespace tilelang::emulator
