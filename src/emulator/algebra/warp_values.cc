#include "emulator/algebra/warp_values.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/isa/row.h"

namespace tilelang::emulator {
namespace {

constexpr int kMostResults = 8;
constexpr size_t kResultBytes = size_t{16} * kLanes;

}  // namespace

bool IsUsualConstant(float value) {
  const float size = std::fabs(value);
  return size >= 1e-9F && size <= 1e9F;
}

WarpValues::WarpValues(AlgebraState& state, const Warp& warp)
    : WarpChecks(warp),
      state_(state),
      kernel_(warp.cta.cluster.kernel()),
      rules_(state.RulesFor(kernel_)),
      registers_(kernel_.file_bytes),
      staged_(kMostResults * kResultBytes),
      tagged_(kernel_.slot_bits.size()),
      constant_(kernel_.slot_bits.size()) {
  for (const SlotInit& init : kernel_.constants) {
    constant_[init.slot / 32] = 1;
    if (init.bits != 32) continue;
    const float value = std::bit_cast<float>(static_cast<uint32_t>(init.value));
    if (!IsUsualConstant(value)) continue;
    const Element element = ElementOfConstant(value);
    if (SameElement(element, ElementOfFloat(value))) continue;
    for (int lane = 0; lane < kLanes; ++lane) Write(init.slot, lane, 0, Type::kF32, element);
  }
}

void WarpValues::Before(const Warp& warp, const Op& op, uint32_t lanes) {
  WarpChecks::Before(warp, op, lanes);
  const ElementRule& rule = rules_[static_cast<size_t>(&op - kernel_.code.data())];
  switch (rule.kind) {
    case RuleKind::kFloat:
      return BeforeFloat(warp, op, rule, lanes);
    case RuleKind::kConvert:
      return BeforeConvert(warp, op, rule, lanes);
    case RuleKind::kReduce:
      return BeforeReduce(warp, op, rule, lanes);
    case RuleKind::kMove:
    case RuleKind::kResize:
    case RuleKind::kUnpack:
    case RuleKind::kPack:
    case RuleKind::kElements:
    case RuleKind::kSelect:
    case RuleKind::kSelectSign:
    case RuleKind::kShuffle:
    case RuleKind::kPermute:
    case RuleKind::kMask:
    case RuleKind::kShift:
    case RuleKind::kAddBits:
      return BeforeMove(warp, op, rule, lanes);
    case RuleKind::kLoad:
      return BeforeMemory(warp, op, lanes);
    case RuleKind::kLoadMatrix:
    case RuleKind::kTransposeMatrix:
      return BeforeMatrix(warp, op, rule);
    case RuleKind::kAtomic:
      return BeforeAtomic(warp, op, rule, lanes);
    case RuleKind::kMma:
      return BeforeMma(warp, op);
    case RuleKind::kBits:
      return RemarkBits(op, lanes);
    default:
      return;
  }
}

void WarpValues::After(const Warp& warp, const Op& op, uint32_t lanes) {
  WarpChecks::After(warp, op, lanes);
  const ElementRule& rule = rules_[static_cast<size_t>(&op - kernel_.code.data())];
  // Lanes that do not take part in a collective instruction yet execute it later.
  lanes &= warp.split().mask;
  switch (rule.kind) {
    case RuleKind::kNothing:
      return;
    case RuleKind::kFloat:
    case RuleKind::kConvert:
    case RuleKind::kReduce:
      return AfterFloat(warp, op, rule, lanes);
    case RuleKind::kLoad:
      return AfterLoad(warp, op, rule, lanes);
    case RuleKind::kStore:
      return AfterStore(warp, op, rule, lanes);
    case RuleKind::kZeroMemory:
      return AfterZeroMemory(warp, op, lanes);
    case RuleKind::kParameter:
      return AfterParameter(warp, op, rule, lanes);
    case RuleKind::kStoreMatrix:
      return AfterStoreMatrix(warp, op, rule);
    case RuleKind::kAtomic:
      return AfterAtomic(op, rule, lanes);
    case RuleKind::kMma:
      return AfterMma(op);
    case RuleKind::kBits:
      return ClearWrites(kernel_.sources[op.source], lanes);
    default:
      return AfterMove(lanes);
  }
}

Element WarpValues::Read(const Warp& warp, uint32_t slot, int lane, int offset, Type type) const {
  const size_t place = Place(slot, lane) + static_cast<size_t>(offset);
  const uint8_t* host = warp.Reg<uint8_t>(0) + place;
  Element element;
  if (tagged_[slot / 32] && registers_.Get(place, FloatFormatOfType(type).bytes, host, &element)) {
    return element;
  }
  return ElementOfBits(type, host);
}

void WarpValues::Write(uint32_t slot, int lane, int offset, Type type, const Element& element) {
  const size_t place = Place(slot, lane) + static_cast<size_t>(offset);
  const int bytes = FloatFormatOfType(type).bytes;
  if (element.known()) {
    tagged_[slot / 32] = 1;
    registers_.Set(place, bytes, element);
  } else if (tagged_[slot / 32]) {
    registers_.Clear(place, static_cast<size_t>(bytes));
  }
}

void WarpValues::ClearRegister(uint32_t slot, uint32_t lanes) {
  if (slot == kNoSlot || !tagged_[slot / 32]) return;
  const auto bytes = static_cast<size_t>(BytesOf(slot));
  if (lanes == kAllLanes) {
    tagged_[slot / 32] = 0;
    return registers_.Clear(slot, bytes * kLanes);
  }
  ForEachLane(lanes, [&](int lane) { registers_.Clear(Place(slot, lane), bytes); });
}

void WarpValues::ClearWrites(const SourceLine& source, uint32_t lanes) {
  for (uint32_t slot : source.use.writes) ClearRegister(slot, lanes);
}

void WarpValues::LoadShadow(uint32_t slot, int lane, const void* from, size_t bytes) {
  const auto width = static_cast<size_t>(BytesOf(slot));
  if (state_.memory.IsClear(from, bytes)) {
    if (tagged_[slot / 32]) registers_.Clear(Place(slot, lane), width);
    return;
  }
  tagged_[slot / 32] = 1;
  if (width > bytes) registers_.Clear(Place(slot, lane), width);
  state_.memory.ToBlock(registers_, Place(slot, lane), from, std::min(bytes, width));
}

void WarpValues::StoreShadow(uint32_t slot, int lane, void* to, size_t bytes) {
  if (!tagged_[slot / 32]) return state_.memory.Clear(to, bytes);
  state_.memory.FromBlock(to, registers_, Place(slot, lane), bytes);
}

void WarpValues::LoadPart(uint32_t slot, int lane, size_t offset, const void* from, size_t bytes) {
  if (!state_.memory.IsClear(from, bytes)) tagged_[slot / 32] = 1;
  if (tagged_[slot / 32]) {
    state_.memory.ToBlock(registers_, Place(slot, lane) + offset, from, bytes);
  }
}

bool WarpValues::TakePart(ShadowBlock& to, size_t place, uint32_t slot, int lane, size_t offset,
                          size_t bytes) const {
  if (!tagged_[slot / 32]) return false;
  to.Copy(place, registers_, Place(slot, lane) + offset, bytes);
  return !to.IsClear(place, bytes);
}

void WarpValues::RemarkBits(const Op& op, uint32_t lanes) {
  const SourceLine& source = kernel_.sources[op.source];
  uint64_t count = 0;
  for (uint32_t slot : source.use.reads) {
    if (!tagged_[slot / 32] || IsConstant(slot)) continue;
    ForEachLane(lanes, [&](int lane) {
      const auto bytes = static_cast<size_t>(BytesOf(slot));
      count += registers_.IsClear(Place(slot, lane), bytes) ? 0 : 1;
    });
  }
  if (count != 0) state_.Remark(RemarkKind::kBroken, kernel_, op, count);
}

}  // namespace tilelang::emulator
