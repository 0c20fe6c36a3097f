// Instructions that move floats between registers and lanes, or put their bytes together.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "emulator/algebra/warp_values.h"
#include "emulator/instructions/shuffle.h"

namespace tilelang::emulator {
namespace {

// Bytes that a lane has for each result register where results are staged.
constexpr size_t kLaneBytes = 16;

constexpr size_t StagedAt(int result, int lane) {
  return (static_cast<size_t>(result) * kLanes + static_cast<size_t>(lane)) * kLaneBytes;
}

// Returns whether a mask of an f32 keeps only the sign, the exponent and the begin of the fraction.
bool DropsFraction(uint64_t mask, int width) {
  const auto dropped = ~static_cast<uint32_t>(mask);
  return width == 4 && dropped < (1u << 23) && (dropped & (dropped + 1)) == 0;
}

int SourceLaneOf(std::string_view mode, uint32_t lane, uint32_t b, uint32_t c) {
  uint32_t in_range = 0;
  const uint32_t source = mode == "up"     ? SourceLane<Shuffle::kUp>(lane, b, c, &in_range)
                          : mode == "down" ? SourceLane<Shuffle::kDown>(lane, b, c, &in_range)
                          : mode == "bfly" ? SourceLane<Shuffle::kBfly>(lane, b, c, &in_range)
                                           : SourceLane<Shuffle::kIdx>(lane, b, c, &in_range);
  return static_cast<int>(source);
}

// The words of elements that xor has put together.
class Mixed {
 public:
  // `whole`: it is one element, not mixed itself.
  void Add(const Element& element, bool whole) {
    for (int i = 0; i < kParts; ++i) element_.part[i] ^= element.part[i];
    whole_ ^= whole;
  }
  const Element& element() const { return element_; }
  bool is_whole() const { return whole_; }
  // Returns whether the words can be the parts of a known element.
  bool IsValid() const {
    bool valid = element_.known();
    for (int i = 0; i < kParts; ++i) {
      const uint32_t part = element_.part[i];
      const bool absent = element_.part[i & ~1] & kAbsentPart;
      valid &= absent ? part == kAbsentPart : (part & ~kTwistBit) < kModuli[i];
    }
    return valid;
  }

 private:
  Element element_{};
  bool whole_ = false;
};

// Calls run(first result byte, first source, bytes) for runs of bytes whose sources follow each
// other. A source below 0 is none.
template <size_t count, typename Run>
void ForEachRun(const std::array<int, count>& sources, size_t bytes, Run run) {
  for (size_t i = 0; i < bytes;) {
    size_t end = i + 1;
    while (end < bytes && sources[i] >= 0 && sources[end] == sources[end - 1] + 1) ++end;
    if (sources[i] >= 0) run(i, sources[i], end - i);
    i = end;
  }
}

}  // namespace

bool WarpValues::IsTagged(uint32_t slot, int lane) const {
  return tagged_[slot / 32] &&
         !registers_.IsClear(Place(slot, lane), static_cast<size_t>(BytesOf(slot)));
}

void WarpValues::Stage(int result, size_t place, uint32_t slot, int lane, size_t offset,
                       size_t bytes) {
  staged_.Copy(StagedAt(result, lane) + place, registers_, Place(slot, lane) + offset, bytes);
}

void WarpValues::StageMemory(int result, size_t place, int lane, const void* from, size_t bytes) {
  state_.memory.ToBlock(staged_, StagedAt(result, lane) + place, from, bytes);
}

void WarpValues::BeforeMove(const Warp& warp, const Op& op, const ElementRule& rule,
                            uint32_t lanes) {
  moves_elements_ = std::any_of(op.slots, op.slots + op.slot_count, [&](uint32_t slot) {
    return slot != kNoSlot && tagged_[slot / 32] != 0;
  });
  if (!moves_elements_) {  // such as of addresses
    results_ = kernel_.sources[op.source].use.writes;
    return;
  }
  switch (rule.kind) {
    case RuleKind::kSelect:
    case RuleKind::kSelectSign:
      return BeforeSelect(warp, op, rule, lanes);
    case RuleKind::kShuffle:
      return BeforeShuffle(warp, op, lanes);
    case RuleKind::kPermute:
    case RuleKind::kMask:
    case RuleKind::kShift:
    case RuleKind::kAddBits:
      return BeforeBytes(warp, op, rule, lanes);
    default:
      return BeforeWholeMove(op, rule, lanes);
  }
}

// Moves never wait for other lanes, so that their elements move before them. Those of registers
// that are both read and written are staged.
void WarpValues::BeforeWholeMove(const Op& op, const ElementRule& rule, uint32_t lanes) {
  const OperandUse& use = kernel_.sources[op.source].use;
  const auto is_read = [&](uint32_t slot) {
    return std::find(use.reads.begin(), use.reads.end(), slot) != use.reads.end();
  };
  const bool staged = std::any_of(use.writes.begin(), use.writes.end(), is_read);
  results_ = {op.slots, 1};
  if (rule.kind == RuleKind::kUnpack) results_ = {op.slots + 1, rule.vector};
  if (rule.kind == RuleKind::kElements) results_ = {op.slots, rule.vector};
  const auto move = [&](size_t result, size_t place, uint32_t slot, size_t offset, size_t bytes) {
    if (staged) {
      ForEachLane(lanes, [&](int lane) {
        Stage(static_cast<int>(result), place, slot, lane, offset, bytes);
      });
    } else if (results_[result] != kNoSlot) {
      MoveRow(results_[result], place, slot, offset, bytes, lanes);
    }
  };
  const auto whole = static_cast<size_t>(BytesOf(op.slots[0]));
  const size_t part = whole / std::max<size_t>(rule.vector, 1);
  switch (rule.kind) {
    case RuleKind::kUnpack:
      for (size_t k = 0; k < rule.vector; ++k) move(k, 0, op.slots[0], part * k, part);
      break;
    case RuleKind::kPack:
      for (size_t k = 0; k < rule.vector; ++k) move(0, part * k, op.slots[1 + k], 0, part);
      break;
    case RuleKind::kElements:
      for (size_t k = 0; k < rule.vector; ++k) move(k, 0, op.slots[rule.vector + k], 0, whole);
      break;
    case RuleKind::kResize: {
      if (!staged) ClearRegister(op.slots[0], lanes);
      const int bits = std::min(TypeBits(rule.type), TypeBits(rule.source));
      move(0, 0, op.slots[1], 0, static_cast<size_t>(bits / 8));
      break;
    }
    default:
      move(0, 0, op.slots[1], 0, whole);
  }
  if (!staged) results_ = {};
}

void WarpValues::MoveRow(uint32_t to, size_t place, uint32_t from, size_t offset, size_t bytes,
                         uint32_t lanes) {
  if (!tagged_[from / 32] && !tagged_[to / 32]) return;
  tagged_[to / 32] = 1;
  const auto width = static_cast<size_t>(BytesOf(to));
  if (lanes == kAllLanes && bytes == width && width == static_cast<size_t>(BytesOf(from))) {
    return registers_.Copy(to, registers_, from, kLanes * bytes);
  }
  ForEachLane(lanes, [&](int lane) {
    registers_.Copy(Place(to, lane) + place, registers_, Place(from, lane) + offset, bytes);
  });
}

void WarpValues::BeforeSelect(const Warp& warp, const Op& op, const ElementRule& rule,
                              uint32_t lanes) {
  results_ = {op.slots, 1};
  const auto bytes = static_cast<size_t>(BytesOf(op.slots[0]));
  uint32_t first = 0;
  if (rule.kind == RuleKind::kSelect) {
    first = warp.Predicate(op.slots[3]);
  } else {
    const bool is_float = kernel_.sources[op.source].spelling.ends_with("f32");
    const uint32_t* bits = warp.Reg<uint32_t>(op.slots[3]);
    ForEachLane(lanes, [&](int lane) {
      const bool positive =
          is_float ? std::bit_cast<float>(bits[lane]) >= 0 : static_cast<int32_t>(bits[lane]) >= 0;
      first |= positive ? 1u << lane : 0;
    });
  }
  ForEachLane(lanes,
              [&](int lane) { Stage(0, 0, op.slots[first >> lane & 1 ? 1 : 2], lane, 0, bytes); });
}

// Slots: d, p (or none), a, b, c, membermask.
void WarpValues::BeforeShuffle(const Warp& warp, const Op& op, uint32_t lanes) {
  results_ = {op.slots, 1};
  const std::string& spelling = kernel_.sources[op.source].spelling;
  const std::string mode = spelling.find(".up") != std::string::npos     ? "up"
                           : spelling.find(".down") != std::string::npos ? "down"
                           : spelling.find(".bfly") != std::string::npos ? "bfly"
                                                                         : "idx";
  const uint32_t* b = warp.Reg<uint32_t>(op.slots[3]);
  const uint32_t* c = warp.Reg<uint32_t>(op.slots[4]);
  ForEachLane(lanes, [&](int lane) {
    const int source = SourceLaneOf(mode, static_cast<uint32_t>(lane), b[lane], c[lane]);
    staged_.Copy(StagedAt(0, lane), registers_, Place(op.slots[2], source), 4);
  });
}

void WarpValues::BeforeBytes(const Warp& warp, const Op& op, const ElementRule& rule,
                             uint32_t lanes) {
  results_ = {op.slots, 1};
  const auto bytes = static_cast<size_t>(BytesOf(op.slots[0]));
  const bool masks = rule.kind == RuleKind::kMask;
  const bool mixes = masks && kernel_.sources[op.source].spelling.starts_with("xor");
  uint64_t lost = 0;
  ForEachLane(lanes, [&](int lane) {
    staged_.Clear(StagedAt(0, lane), bytes);
    const bool tagged = IsTagged(op.slots[1], lane) || IsTagged(op.slots[2], lane);
    if (!tagged) return;
    if (rule.kind == RuleKind::kPermute) StagePermuted(warp, op, lane);
    if (masks) StageMasked(warp, op, lane);
    if (mixes) StageMixed(warp, op, lane);
    if (rule.kind == RuleKind::kShift) StageShifted(warp, op, rule, lane);
    if (rule.kind == RuleKind::kAddBits) StageScaled(warp, op, rule, lane);
    if (staged_.IsClear(StagedAt(0, lane), bytes)) ++lost;
  });
  if (lost != 0 && !masks) state_.Remark(RemarkKind::kBroken, kernel_, op, lost);
}

// prmt without a mode.
void WarpValues::StagePermuted(const Warp& warp, const Op& op, int lane) {
  if (kernel_.sources[op.source].spelling != "prmt.b32") return;
  const uint32_t selectors = warp.Reg<uint32_t>(op.slots[3])[lane];
  std::array<int, 4> sources;
  for (int i = 0; i < 4; ++i) {
    const auto selector = static_cast<int>(selectors >> (4 * i) & 0xF);
    sources[static_cast<size_t>(i)] = selector < 8 ? selector : -1;
  }
  // A run that goes from one operand to the other is two.
  ForEachRun(sources, 4, [&](size_t place, int source, size_t bytes) {
    while (bytes != 0) {
      const auto offset = static_cast<size_t>(source % 4);
      const size_t part = std::min(bytes, 4 - offset);
      Stage(0, place, op.slots[source < 4 ? 1 : 2], lane, offset, part);
      place += part, source += static_cast<int>(part), bytes -= part;
    }
  });
}

// Bytes that the other operand keeps, or adds nothing to; and signs.
void WarpValues::StageMasked(const Warp& warp, const Op& op, int lane) {
  const auto bytes = static_cast<size_t>(BytesOf(op.slots[0]));
  const std::string& spelling = kernel_.sources[op.source].spelling;
  const bool conjunction = spelling.starts_with("and");
  for (int k = 1; k <= 2; ++k) {
    const uint32_t slot = op.slots[k], other = op.slots[3 - k];
    if (!IsTagged(slot, lane)) continue;
    const uint8_t* mask = warp.Reg<uint8_t>(0) + Place(other, lane);
    std::array<int, 8> sources;
    for (size_t i = 0; i < bytes; ++i) {
      const bool keeps = mask[i] == (conjunction ? 0xFF : 0x00);
      const bool clear = !tagged_[other / 32] || registers_.IsClear(Place(other, lane) + i, 1) ||
                         IsConstant(other);
      sources[i] = keeps && clear ? static_cast<int>(i) : -1;
    }
    ForEachRun(sources, bytes, [&](size_t place, int source, size_t run) {
      Stage(0, place, slot, lane, static_cast<size_t>(source), run);
    });
    StageSigns(warp, slot, lane, mask, spelling);
  }
}

// Masks of the sign bits of floats: and clears, or sets, xor changes them. A mask that clears the
// end of an f32's fraction is a cast, and one that keeps all bits of the float is nothing.
void WarpValues::StageSigns(const Warp& warp, uint32_t slot, int lane, const uint8_t* mask,
                            std::string_view spelling) {
  const int bytes = BytesOf(slot);
  const uint8_t* host = warp.Reg<uint8_t>(0) + Place(slot, lane);
  for (int width = 2; width <= bytes; width *= 2) {
    for (int offset = 0; offset < bytes; offset += width) {
      Element element;
      const size_t place = Place(slot, lane) + static_cast<size_t>(offset);
      if (!registers_.Get(place, width, host + offset, &element)) continue;
      uint64_t bits = 0, own = 0;
      std::memcpy(&bits, mask + offset, static_cast<size_t>(width));
      std::memcpy(&own, host + offset, static_cast<size_t>(width));
      const uint64_t sign = uint64_t{1} << (8 * width - 1);
      const bool negative = host[offset + width - 1] >> 7;
      bool negate = false;
      if (spelling.starts_with("and") && bits == sign - 1) {
        negate = negative;
      } else if (spelling.starts_with("or") && bits == sign) {
        negate = !negative;
      } else if (spelling.starts_with("xor") && bits == sign) {
        negate = true;
      } else if (!spelling.starts_with("and") ||
                 ((own & ~bits) != 0 && !DropsFraction(bits, width))) {
        continue;
      }
      staged_.Set(StagedAt(0, lane) + static_cast<size_t>(offset), width,
                  negate ? Negate(element) : element);
    }
  }
}

// Sorts and flips exchange two floats by xor: x ^ (x ^ y) is y. The words of elements are mixed as
// the bits of the floats are, so an odd number of operands may be an element again.
void WarpValues::StageMixed(const Warp& warp, const Op& op, int lane) {
  const int bytes = BytesOf(op.slots[0]);
  for (int width = std::min(bytes, 4); width >= 2; width /= 2) {
    for (int offset = 0; offset < bytes; offset += width) {
      const size_t staged = StagedAt(0, lane) + static_cast<size_t>(offset);
      if (!staged_.IsClear(staged, static_cast<size_t>(width))) continue;
      Mixed mixed;
      bool known = true, any = false;
      for (int k = 1; k <= 2; ++k) {
        const size_t place = Place(op.slots[k], lane) + static_cast<size_t>(offset);
        const uint8_t* host = warp.Reg<uint8_t>(0) + place;
        Element element;
        if (!registers_.IsClear(place, static_cast<size_t>(width))) {
          const bool whole = registers_.Get(place, width, host, &element);
          known &= whole || registers_.GetMixed(place, width, &element);
          mixed.Add(element, whole);
          any = true;
        } else {
          mixed.Add(ElementOfBits(width == 4 ? Type::kF32 : Type::kF16, host), true);
        }
      }
      if (!any || !known) continue;
      if (!mixed.is_whole()) staged_.SetMixed(staged, width, mixed.element());
      if (mixed.is_whole() && mixed.IsValid()) staged_.Set(staged, width, mixed.element());
    }
  }
}

void WarpValues::StageShifted(const Warp& warp, const Op& op, const ElementRule& rule, int lane) {
  const auto bytes = static_cast<size_t>(BytesOf(op.slots[0]));
  const uint32_t amount = warp.Reg<uint32_t>(op.slots[2])[lane];
  // A factor e8m0 becomes a number by a shift to where f32 or bf16 has its exponent.
  const size_t width = amount == 23 ? 4 : amount == 7 ? 2 : 0, at = Place(op.slots[1], lane);
  Element factor;
  if (rule.left && width != 0 && width <= bytes && registers_.IsClear(at + 1, bytes - 1) &&
      registers_.Get(at, 1, warp.Reg<uint8_t>(0) + at, &factor)) {
    return staged_.Set(StagedAt(0, lane), static_cast<int>(width), factor);
  }
  if (amount % 8 != 0 || amount / 8 >= bytes) return;
  const size_t shift = amount / 8;
  Stage(0, rule.left ? shift : 0, op.slots[1], lane, rule.left ? 0 : shift, bytes - shift);
}

// x * 2^n: the bits of an f32 and n * 2^23.
void WarpValues::StageScaled(const Warp& warp, const Op& op, const ElementRule& rule, int lane) {
  constexpr int kFractionBits = 23;
  constexpr uint32_t kExponentMask = 0xFF;
  for (int k = 1; k <= (rule.left ? 2 : 1); ++k) {
    const uint32_t slot = op.slots[k], other = op.slots[3 - k];
    Element element;
    const auto* bits = reinterpret_cast<const uint8_t*>(&warp.Reg<uint32_t>(slot)[lane]);
    if (!tagged_[slot / 32] || !registers_.Get(Place(slot, lane), 4, bits, &element)) continue;
    const auto added = static_cast<int32_t>(warp.Reg<uint32_t>(other)[lane]);
    if (IsTagged(other, lane) || added % (1 << kFractionBits) != 0) continue;
    const int power = (rule.left ? added : -added) / (1 << kFractionBits);
    const auto old = static_cast<int>(warp.Reg<uint32_t>(slot)[lane] >> kFractionBits);
    const int exponent = (old & static_cast<int>(kExponentMask)) + power;
    const bool normal = (old & static_cast<int>(kExponentMask)) != 0 && exponent > 0 &&
                        exponent < static_cast<int>(kExponentMask);
    if (normal)
      staged_.Set(StagedAt(0, lane), 4, Multiply(element, ElementOf(std::ldexp(1.0, power))));
  }
}

void WarpValues::AfterMove(uint32_t lanes) {
  for (size_t k = 0; k < results_.size(); ++k) {
    const uint32_t slot = results_[k];
    if (slot == kNoSlot) continue;
    const auto bytes = static_cast<size_t>(BytesOf(slot));
    const size_t staged = StagedAt(static_cast<int>(k), 0);
    if (!moves_elements_ || staged_.IsClear(staged, kLanes * kLaneBytes)) {
      ClearRegister(slot, lanes);
      continue;
    }
    tagged_[slot / 32] = 1;
    ForEachLane(lanes, [&](int lane) {
      registers_.Copy(Place(slot, lane), staged_, StagedAt(static_cast<int>(k), lane), bytes);
    });
    staged_.Clear(staged, kLanes * kLaneBytes);
  }
}

}  // namespace tilelang::emulator
