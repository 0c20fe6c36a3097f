// Instructions of warps on tensor memory: tcgen05.alloc, dealloc, relinquish_alloc_permit, ld, st,
// wait and fence.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "emulator/async/engines.h"
#include "emulator/async/signals.h"
#include "emulator/async/tcgen05_access.h"
#include "emulator/async/tcgen05_layout.h"
#include "emulator/async/tcgen05_pair.h"
#include "emulator/core/algebra.h"
#include "emulator/core/decoder.h"
#include "emulator/core/families.h"
#include "emulator/instructions/float_ops.h"
#include "emulator/sanitizer/warp_checks.h"

namespace tilelang::emulator {
namespace {

constexpr const char* kTensorMemory = "tensor memory";

TensorMemory& TensorOf(Warp& w) { return CtaState::Of(w.cta).tensor(); }

void TakeAligned(Decoder& d) {
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) d.Illegal(".sync.aligned is mandatory");
}

// The value that all lanes of a converged warp must agree on.
uint32_t Uniform(Warp& w, const AddressOperand& address, uint32_t mask, const char* what) {
  const int first = __builtin_ctz(mask);
  const uint32_t value = static_cast<uint32_t>(address.At(w, first));
  ForEachLane(mask, [&](int lane) {
    if (static_cast<uint32_t>(address.At(w, lane)) == value) return;
    Fail(w.Here(lane), "illegal-operand",
         std::string("all threads of the warp must give the same ") + what, value, kTensorMemory);
  });
  return value;
}

// --- allocation ---------------------------------------------------------------------------------

struct AllocForm {
  AddressOperand address;
  Space space = Space::kGeneric;
  bool pair = false;
};

// Operations of others on the columns come after their allocation. That of a pair is one operation
// of two warps, both of which know of both parts.
void NoteAllocation(const std::vector<Issuer>& issuers, int column, int columns) {
  Engines& engines = Engines::Of(issuers[0].cta->cluster);
  Sanitizer* sanitizer = engines.sanitizer();
  for (const Issuer& issuer : issuers) {
    CtaState& state = CtaState::Of(*issuer.cta);
    state.last_allocator = issuer;
    if (!sanitizer) continue;
    Sanitizer::Step step = sanitizer->ThreadStep(issuer, "tcgen05.alloc takes", true);
    step.actor = engines.ActorOf(ActorKind::kTensorAlloc, issuer, "tcgen05.alloc", true);
    step.step = ++state.allocations[static_cast<size_t>(issuer.warp)];
    step.generic = false;
    step.met = nullptr;
    sanitizer->Tensor(*issuer.cta, 0, TensorMemory::kLanes, column, columns, step);
    for (const Issuer& other : issuers) sanitizer->LearnTensor(other, step.actor, step.step);
  }
}

Flow AwaitColumns(Warp& w, uint32_t columns) {
  WaitInfo info;
  info.object = "free tensor memory";
  info.detail = columns;
  info.describe = [](const Warp& warp, const WaitInfo& wait) {
    return std::to_string(wait.detail) + " columns; allocated: " +
           CtaState::Of(warp.cta).existing_tensor()->DescribeAllocations();
  };
  return w.WaitOn(info);
}

// The n-th allocation of one CTA is one operation with that of its peer. resume: n, from 1 on.
Flow AllocateForPair(Warp& w, const Issuer& issuer, uint32_t columns, std::optional<int>* column) {
  std::vector<PairTurns::Allocation>& own = CtaState::Of(w.cta).pair.allocations;
  uint64_t& turn = w.split().resume;
  if (turn == 0) {
    Located(issuer, 0, kTensorMemory, [&] {
      TensorOf(w).CheckAllocation(columns);
      return 0;
    });
    own.push_back({issuer, columns, -1});
    turn = own.size();
  }
  const Cta& peer = PeerOf(issuer);
  std::vector<PairTurns::Allocation>& others = CtaState::Of(peer).pair.allocations;
  if (others.size() < turn) return AwaitPeer(w, issuer, "tcgen05.alloc");
  PairTurns::Allocation& mine = own[turn - 1];
  PairTurns::Allocation& theirs = others[turn - 1];
  if (theirs.columns != columns) {
    Fail(issuer, "cta-pair",
         "tcgen05.alloc of " + std::to_string(columns) + " columns together with one of " +
             std::to_string(theirs.columns) + " in the peer CTA: the two are one operation");
  }
  if (mine.column < 0) {
    // Both tensor memories are allocated alike.
    const auto found = Located(issuer, 0, kTensorMemory, [&] {
      const std::optional<int> first = TensorOf(w).Allocate(columns);
      if (first) CtaState::Of(peer).tensor().Allocate(columns);
      return first;
    });
    if (!found) return AwaitColumns(w, columns);
    mine.column = theirs.column = *found;
    NoteAllocation({issuer, theirs.issuer}, *found, static_cast<int>(columns));
  }
  *column = mine.column;
  return Flow::kNext;
}

Flow Alloc(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const auto& form = op.Extra<AllocForm>();
  const int lane = __builtin_ctz(mask);
  const Issuer issuer = w.Here(lane);
  const uint32_t columns = w.Reg<uint32_t>(op.a[0])[lane];
  std::optional<int> column;
  if (form.pair) {
    const Flow flow = AllocateForPair(w, issuer, columns, &column);
    if (flow != Flow::kNext) return flow;
  } else {
    column = Located(issuer, 0, kTensorMemory, [&] { return TensorOf(w).Allocate(columns); });
    if (!column) return AwaitColumns(w, columns);
    NoteAllocation({issuer}, *column, static_cast<int>(columns));
  }
  const uint32_t target = ToSharedAddress(w, lane, form.space, form.address.At(w, lane));
  uint8_t* word = SharedAccess(w.cta.cluster, issuer, target, 4, 4, AccessKind::kWrite);
  const uint32_t address = static_cast<uint32_t>(*column);
  std::memcpy(word, &address, sizeof address);
  return Flow::kNext;
}

void DecodeAlloc(Decoder& d) {
  AllocForm& form = d.MakeExtra<AllocForm>();
  form.pair = TakeCtaGroup(d);
  TakeAligned(d);
  form.space = d.mods.TakeSpace();
  d.mods.Take("b32");
  form.address = d.Address(d.operand(0));
  d.PushSource(1, Type::kU32);
  d.op.handler = Alloc;
}

struct PairForm {
  bool pair = false;
};

// Deallocation ends the life of the cells, so every use must be over: it counts as a write.
void CheckUnused(Warp& w, const Issuer& issuer, TmemAddress address, int columns) {
  Sanitizer* sanitizer = Engines::Of(w).sanitizer();
  if (!sanitizer) return;
  Sanitizer::Step step = sanitizer->ThreadStep(issuer, "tcgen05.dealloc frees", true);
  step.generic = false;
  step.frees = true;
  sanitizer->Tensor(w.cta, 0, TensorMemory::kLanes, address.column(), columns, step);
}

void Free(const Cta& cta, TmemAddress address, uint32_t columns) {
  CtaState::Of(cta).tensor().Deallocate(address, columns);
  if (Sanitizer* sanitizer = Engines::Of(cta.cluster).sanitizer()) {
    sanitizer->ForgetTensor(cta, address.column(), static_cast<int>(columns));
  }
}

// The n-th deallocation of the same columns in both CTAs is one operation, which may block until
// both are there: here it always does. resume: n, from 1 on.
Flow FreeForPair(Warp& w, const Issuer& issuer, TmemAddress address, uint32_t columns) {
  auto& own = CtaState::Of(w.cta).pair.deallocations[static_cast<size_t>(address.column())];
  const Cta& peer = PeerOf(issuer);
  const uint32_t others =
      CtaState::Of(peer).pair.deallocations[static_cast<size_t>(address.column())];
  uint64_t& turn = w.split().resume;
  if (turn == 0) {
    turn = ++own;
    if (others >= turn) {
      Free(w.cta, address, columns);
      Free(peer, address, columns);
    }
  }
  return others >= turn ? Flow::kNext : AwaitPeer(w, issuer, "tcgen05.dealloc");
}

Flow Dealloc(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const int lane = __builtin_ctz(mask);
  const Issuer issuer = w.Here(lane);
  const TmemAddress address(w.Reg<uint32_t>(op.a[0])[lane]);
  const uint32_t columns = w.Reg<uint32_t>(op.a[1])[lane];
  if (w.split().resume == 0) {
    Located(issuer, address.raw, kTensorMemory, [&] {
      TensorOf(w).CheckDeallocation(address, columns);
      return 0;
    });
    CheckUnused(w, issuer, address, static_cast<int>(columns));
  }
  if (op.Extra<PairForm>().pair) return FreeForPair(w, issuer, address, columns);
  Free(w.cta, address, columns);
  return Flow::kNext;
}

void DecodeDealloc(Decoder& d) {
  d.MakeExtra<PairForm>().pair = TakeCtaGroup(d);
  TakeAligned(d);
  d.mods.Take("b32");
  d.PushSource(0, Type::kU32);
  d.PushSource(1, Type::kU32);
  d.op.handler = Dealloc;
}

Flow Relinquish(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  TensorOf(w).Relinquish();
  if (!op.Extra<PairForm>().pair) return Flow::kNext;
  const Issuer issuer = w.Here(__builtin_ctz(mask));
  uint64_t& turn = w.split().resume;
  if (turn == 0) turn = ++CtaState::Of(w.cta).pair.relinquished;
  if (CtaState::Of(PeerOf(issuer)).pair.relinquished >= turn) return Flow::kNext;
  return AwaitPeer(w, issuer, "tcgen05.relinquish_alloc_permit");
}

void DecodeRelinquish(Decoder& d) {
  d.MakeExtra<PairForm>().pair = TakeCtaGroup(d);
  TakeAligned(d);
  d.op.handler = Relinquish;
}

// --- ld and st ----------------------------------------------------------------------------------

// The hardware routes a warp to its own quarter of the lanes, whatever quarter the address names:
// several compilers give every warp the address of lane 0, and published kernels of pairs count the
// lanes of the odd CTA from 128 on.
TmemAddress OwnQuarter(Warp& w, const Issuer& issuer, TmemAddress at, int lanes, const char* what) {
  const int quarter = 32 * static_cast<int>(w.index % 4), within = at.lane() % 32;
  const int ctas = std::max(1, w.cta.cluster.kernel().cta_group);
  if (at.lane() >= TensorMemory::kLanes * ctas || (within != 0 && !(lanes == 16 && within == 16))) {
    Fail(issuer, "tmem-lanes",
         std::string(what) + " starts at lane " + std::to_string(at.lane()) +
             ": this shape starts at a multiple of " + std::to_string(lanes) + " below 128",
         at.raw, kTensorMemory);
  }
  const TmemAddress own(static_cast<uint32_t>(quarter + within) << 16 |
                        static_cast<uint32_t>(at.column()));
  if (own.lane() != at.lane()) {
    Warn(issuer, "tmem-lanes",
         std::string(what) + " names lane " + std::to_string(at.lane()) + ", but warp " +
             std::to_string(w.index) + " reaches lanes " + std::to_string(quarter) + ".." +
             std::to_string(quarter + 31) + " only (warp index modulo 4): lane " +
             std::to_string(own.lane()) + " is used, as the hardware does");
  }
  return own;
}

Rectangles CheckPlace(Warp& w, const AccessForm& form, uint32_t mask, const char* what) {
  const Issuer issuer = w.Here(__builtin_ctz(mask));
  const uint32_t raw = Uniform(w, form.address, mask, "tensor-memory address");
  const bool twice = form.shape == AccessShape::k16x32bx2;
  Rectangles place{TmemAddress(raw), TmemAddress(raw + form.half_offset), twice ? 2 : 1};
  const int lanes = InfoOf(form.shape).lanes;
  for (int i = 0; i < place.count; ++i) {
    TmemAddress& at = i == 0 ? place.first : place.second;
    at = OwnQuarter(w, issuer, at, lanes, what);
    Located(issuer, at.raw, kTensorMemory, [&] {
      TensorOf(w).CheckRange(what, at.lane(), lanes, at.column(), form.columns);
      return 0;
    });
  }
  return place;
}

// Each load is a step of an actor; the stores of a warp between two waits are one step.
ActorId LoadActor(Engines& engines, const Issuer& issuer) {
  return engines.ActorOf(ActorKind::kTensorLoad, issuer, "tcgen05.ld", true);
}
ActorId StoreActor(Engines& engines, const Issuer& issuer) {
  return engines.ActorOf(ActorKind::kTensorStore, issuer, "tcgen05.st", true);
}
uint32_t& LoadStep(Warp& w) { return CtaState::Of(w.cta).loads[w.index]; }
uint32_t& StoreStep(Warp& w) { return CtaState::Of(w.cta).store_waits[w.index]; }

void CheckOrder(Warp& w, const AccessForm& form, const Rectangles& place, const Issuer& issuer,
                bool write) {
  Engines& engines = Engines::Of(w);
  Sanitizer* sanitizer = engines.sanitizer();
  if (!sanitizer) return;
  Sanitizer::Step step =
      sanitizer->ThreadStep(issuer, write ? "tcgen05.st writes" : "tcgen05.ld reads", write);
  step.actor = write ? StoreActor(engines, issuer) : LoadActor(engines, issuer);
  step.step = write ? StoreStep(w) + 1 : ++LoadStep(w);
  step.in_order_with = write ? step.actor : kNoActor;
  step.generic = false;  // tensor memory knows no proxies
  step.met = nullptr;
  for (int i = 0; i < place.count; ++i) {
    const TmemAddress at = i == 0 ? place.first : place.second;
    sanitizer->Tensor(w.cta, at.lane(), InfoOf(form.shape).lanes, at.column(), form.columns, step);
  }
  if (!write) WarpChecks::Of(w).TensorLoad({sanitizer, step.actor, step.step});
}

Flow Load(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const auto& form = op.Extra<AccessForm>();
  const Rectangles place = CheckPlace(w, form, mask, "tcgen05.ld");
  const Issuer issuer = w.Here(__builtin_ctz(mask));
  CheckOrder(w, form, place, issuer, false);
  TensorMemory& tensor = TensorOf(w);
  bool all_written = true;
  for (int r = 0; r < form.registers; ++r) {
    uint32_t* values = w.Reg<uint32_t>(op.slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int32_t index = CellIndex(form, place, r, lane);
      const uint32_t low = tensor.At(index);
      all_written &= tensor.WasWritten(index);
      values[lane] = form.packed ? (low & 0xFFFF) | tensor.At(index + 1) << 16 : low;
    }
  }
  if (current_algebra) LoadElements(w, op, form, place, TensorOf(w));
  if (!all_written) {
    Warn(issuer, "uninitialised-tmem", "tcgen05.ld reads tensor memory that nothing has written");
  }
  return Flow::kNext;
}

Cells CellsOf(Warp& w, const Op& op, const AccessForm& form, const Rectangles& place) {
  Cells cells;
  const bool follows = w.cta.cluster.launch.observer && !w.cta.cluster.kernel().unwritten.empty();
  cells.reserve(static_cast<size_t>(form.registers) * kLanes * (form.packed ? 2 : 1));
  for (int r = 0; r < form.registers; ++r) {
    const uint32_t* values = w.Reg<uint32_t>(op.slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int32_t index = CellIndex(form, place, r, lane);
      const bool undefined = follows && w.register_checks().IsUnwritten(op.slots[r], lane);
      cells.push_back({index, form.packed ? values[lane] & 0xFFFF : values[lane], undefined});
      if (form.packed) cells.push_back({index + 1, values[lane] >> 16, undefined});
    }
  }
  return cells;
}

Issuer WarpIssuer(Warp& w) { return w.Here(-1); }

Flow Store(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const auto& form = op.Extra<AccessForm>();
  const Rectangles place = CheckPlace(w, form, mask, "tcgen05.st");
  const Issuer issuer = w.Here(__builtin_ctz(mask));
  CheckOrder(w, form, place, issuer, true);
  PendingStep step;
  step.issuer = WarpIssuer(w);
  step.name = "tcgen05.st";
  step.work.kind = AsyncWork::Kind::kTensorStore;
  step.act = [&tensor = TensorOf(w), cells = CellsOf(w, op, form, place),
              elements = current_algebra ? ElementsOf(w, op, form) : nullptr] {
    for (const StoredCell& cell : cells) {
      tensor.StoreAt(cell.index, cell.value);
      if (cell.undefined) tensor.MarkUndefined(cell.index);
    }
    if (current_algebra) StoreElements(tensor, cells, elements.get());
  };
  Engines::Of(w).Queue(ChannelKind::kTensorStore, std::move(step));
  return Flow::kNext;
}

int TakeRepetition(Decoder& d, const AccessShapeInfo& info) {
  for (int count = 1; count <= 128; count *= 2) {
    if (!d.mods.Take("x" + std::to_string(count))) continue;
    if (count > info.largest_repetition) {
      d.Illegal(std::string(info.name) + " repeats at most x" +
                std::to_string(info.largest_repetition));
    }
    return count;
  }
  d.Illegal("tcgen05.ld and st need a repetition, .x1 to .x128");
}

void FillCells(AccessForm& form) {
  form.cells.resize(static_cast<size_t>(form.registers) * kLanes);
  for (int r = 0; r < form.registers; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const TmemCell cell = CellOf(form.shape, lane, r);
      form.cells[r * kLanes + lane] =
          cell.lane * TensorMemory::kStride + cell.column * (form.packed ? 2 : 1);
    }
  }
}

// Shape, repetition and packing; returns the number of registers.
void TakeShape(Decoder& d, AccessForm& form, const char* pack) {
  TakeAligned(d);
  const std::string name = d.mods.TakeOneOf({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
  const AccessShapeInfo* info = FindAccessShape(name);
  if (!info)
    d.Illegal("tcgen05.ld and st need a shape: 32x32b, 16x64b, 16x128b, 16x256b, 16x32bx2");
  const int repetition = TakeRepetition(d, *info);
  form.packed = d.mods.Take(pack);
  d.mods.Take("b32");
  form.shape = info->shape;
  form.registers = info->registers * repetition;
  form.columns = info->columns * repetition * (form.packed ? 2 : 1);
  FillCells(form);
}

void PushRegisters(Decoder& d, const AccessForm& form, const ptx::Operand& operand, bool loads) {
  for (const ptx::Operand* element : d.Vector(operand, form.registers, "registers")) {
    d.Push(loads ? d.Destination(*element, Type::kB32) : d.Source(*element, Type::kB32));
  }
}

void DecodeLoad(Decoder& d) {
  AccessForm& form = d.MakeExtra<AccessForm>();
  TakeShape(d, form, "pack::16b");
  PushRegisters(d, form, d.operand(0), true);
  form.address = d.Address(d.operand(1));
  if (form.shape == AccessShape::k16x32bx2) {
    form.half_offset = static_cast<uint32_t>(d.Integer(d.operand(2)));
  }
  d.op.handler = Load;
}

void DecodeStore(Decoder& d) {
  AccessForm& form = d.MakeExtra<AccessForm>();
  TakeShape(d, form, "unpack::16b");
  form.address = d.Address(d.operand(0));
  size_t next = 1;
  if (form.shape == AccessShape::k16x32bx2) {
    form.half_offset = static_cast<uint32_t>(d.Integer(d.operand(next++)));
  }
  PushRegisters(d, form, d.operand(next), false);
  d.op.handler = Store;
}

// tcgen05.ld.red: a load, and the least or greatest of the registers of each thread.
template <typename T, typename Combine>
Flow LoadReduce(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = Load(w, op, mask); flow != Flow::kNext) return flow;
  const auto& form = op.Extra<AccessForm>();
  T* result = w.Reg<T>(op.slots[form.registers]);
  for (int lane = 0; lane < kLanes; ++lane) {
    T value = w.Reg<T>(op.slots[0])[lane];
    for (int r = 0; r < form.registers; ++r) {
      value = Combine()(value, w.Reg<T>(op.slots[r])[lane]);
    }
    result[lane] = value;
  }
  if (current_algebra) ChooseElements(w, op, form.registers, std::is_same_v<T, float>);
  return Flow::kNext;
}

template <typename T, bool kMax>
struct WholeExtreme {
  T operator()(T a, T b) const { return (a < b) != kMax ? a : b; }
};

template <bool kMax, bool kAbs, bool kNan>
struct FloatExtreme {
  float operator()(float a, float b) const {
    if (kAbs) a = std::fabs(a), b = std::fabs(b);
    const float value = MinMax<kMax, kNan>(a, b);
    return std::isnan(value) ? std::bit_cast<float>(0x7FFFFFFFu) : value;
  }
};

template <bool kMax>
Handler LoadReduceOf(Decoder& d, Type type) {
  const bool absolute = d.mods.Take("abs"), nan = d.mods.Take("NaN");
  if (type != Type::kF32 && (absolute || nan)) {
    d.Illegal("tcgen05.ld.red allows .abs and .NaN only with .f32");
  }
  if (type == Type::kU32) return LoadReduce<uint32_t, WholeExtreme<uint32_t, kMax>>;
  if (type == Type::kS32) return LoadReduce<int32_t, WholeExtreme<int32_t, kMax>>;
  if (type != Type::kF32) d.Illegal("the type of tcgen05.ld.red must be .f32, .u32 or .s32");
  if (absolute) {
    return nan ? LoadReduce<float, FloatExtreme<kMax, true, true>>
               : LoadReduce<float, FloatExtreme<kMax, true, false>>;
  }
  return nan ? LoadReduce<float, FloatExtreme<kMax, false, true>>
             : LoadReduce<float, FloatExtreme<kMax, false, false>>;
}

void DecodeLoadReduce(Decoder& d) {
  AccessForm& form = d.MakeExtra<AccessForm>();
  TakeShape(d, form, "");
  if (form.shape != AccessShape::k32x32b && form.shape != AccessShape::k16x32bx2) {
    d.Illegal("the shape of tcgen05.ld.red must be 32x32b or 16x32bx2");
  }
  if (form.registers < 2) d.Illegal("tcgen05.ld.red needs a repetition of .x2 to .x128");
  const std::string operation = d.mods.TakeOneOf({"min", "max"});
  if (operation.empty()) d.Illegal("tcgen05.ld.red needs .min or .max");
  const Type type = d.mods.TakeType();
  d.op.handler = operation == "max" ? LoadReduceOf<true>(d, type) : LoadReduceOf<false>(d, type);
  PushRegisters(d, form, d.operand(0), true);
  d.Push(d.Destination(d.operand(1), Type::kB32));
  form.address = d.Address(d.operand(2));
  if (form.shape == AccessShape::k16x32bx2) {
    form.half_offset = static_cast<uint32_t>(d.Integer(d.operand(3)));
  }
}

// --- waits and fences ---------------------------------------------------------------------------

// Loads deliver at once.
Flow WaitLoad(Warp& w, const Op&, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const uint32_t step = LoadStep(w);
  Engines& engines = Engines::Of(w);
  if (Sanitizer* sanitizer = engines.sanitizer()) {
    const Issuer issuer = w.Here(__builtin_ctz(mask));
    sanitizer->LearnTensor(issuer, LoadActor(engines, issuer), step);
  }
  return Flow::kNext;
}

Flow WaitStore(Warp& w, const Op&, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const uint32_t step = ++StoreStep(w);
  Engines& engines = Engines::Of(w);
  engines.Finish(ChannelKind::kTensorStore, WarpIssuer(w));
  if (Sanitizer* sanitizer = engines.sanitizer()) {
    const Issuer issuer = w.Here(__builtin_ctz(mask));
    sanitizer->LearnTensor(issuer, StoreActor(engines, issuer), step);
  }
  return Flow::kNext;
}

template <Handler handler>
void DecodeWait(Decoder& d) {
  TakeAligned(d);
  d.op.handler = handler;
}

template <void (Sanitizer::*order)(const Issuer&)>
Flow Fence(Warp& w, const Op&, uint32_t mask) {
  if (Sanitizer* sanitizer = Engines::Of(w).sanitizer()) {
    (sanitizer->*order)(w.Here(__builtin_ctz(mask)));
  }
  return Flow::kNext;
}

template <void (Sanitizer::*order)(const Issuer&)>
void DecodeFence(Decoder& d) {
  d.op.handler = Fence<order>;
}

}  // namespace

void RegisterTcgen05Access() {
  FamilyRegistry::Add("tcgen05.alloc", DecodeAlloc);
  FamilyRegistry::Add("tcgen05.dealloc", DecodeDealloc);
  FamilyRegistry::Add("tcgen05.relinquish_alloc_permit", DecodeRelinquish);
  FamilyRegistry::Add("tcgen05.ld", DecodeLoad);
  FamilyRegistry::Add("tcgen05.ld.red", DecodeLoadReduce);
  FamilyRegistry::Add("tcgen05.st", DecodeStore);
  FamilyRegistry::Add("tcgen05.wait::ld", DecodeWait<WaitLoad>);
  FamilyRegistry::Add("tcgen05.wait::st", DecodeWait<WaitStore>);
  FamilyRegistry::Add("tcgen05.fence::before_thread_sync",
                      DecodeFence<&Sanitizer::TensorFenceBefore>);
  FamilyRegistry::Add("tcgen05.fence::after_thread_sync",
                      DecodeFence<&Sanitizer::TensorFenceAfter>);
}

}  // namespace tilelang::emulator
