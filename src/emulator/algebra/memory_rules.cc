// Loads, stores, matrices in shared memory and atomics.
#include <bit>
#include <cmath>

#include "emulator/algebra/warp_values.h"
#include "emulator/instructions/matrix_line.h"

namespace tilelang::emulator {
namespace {

const AddressOperand& AddressOf(const Kernel& kernel, const Op& op) {
  return kernel.sources[op.source].use.addresses.front();
}

// Host memory at an address that an instruction has accessed.
uint8_t* HostAt(const Warp& warp, int lane, Space space, uint64_t address, size_t bytes) {
  return ThreadAccess(const_cast<Warp&>(warp), lane, space, address, static_cast<uint32_t>(bytes),
                      1, AccessKind::kProbe);
}

constexpr size_t kWordBytes = 4;

}  // namespace

void WarpValues::BeforeMemory(const Warp& warp, const Op& op, uint32_t lanes) {
  const AddressOperand& address = AddressOf(kernel_, op);
  ForEachLane(lanes, [&](int lane) { addresses_[lane] = address.At(warp, lane); });
}

void WarpValues::AfterLoad(const Warp& warp, const Op& op, const ElementRule& rule,
                           uint32_t lanes) {
  const auto bytes = static_cast<size_t>(TypeBits(rule.type) / 8);
  ForEachLane(lanes, [&](int lane) {
    const uint8_t* host = HostAt(warp, lane, rule.space, addresses_[lane], bytes * rule.vector);
    for (size_t k = 0; k < rule.vector; ++k) {
      if (op.slots[k] != kNoSlot) LoadShadow(op.slots[k], lane, host + k * bytes, bytes);
    }
  });
}

void WarpValues::AfterStore(const Warp& warp, const Op& op, const ElementRule& rule,
                            uint32_t lanes) {
  const auto bytes = static_cast<size_t>(TypeBits(rule.type) / 8);
  const AddressOperand& address = AddressOf(kernel_, op);
  ForEachLane(lanes, [&](int lane) {
    uint8_t* host = HostAt(warp, lane, rule.space, address.At(warp, lane), bytes * rule.vector);
    for (size_t k = 0; k < rule.vector; ++k) {
      StoreShadow(op.slots[k], lane, host + k * bytes, bytes);
    }
  });
}

void WarpValues::AfterZeroMemory(const Warp& warp, const Op& op, uint32_t lanes) {
  const AddressOperand& address = AddressOf(kernel_, op);
  ForEachLane(lanes, [&](int lane) {
    const uint64_t bytes = warp.Reg<uint64_t>(op.slots[0])[lane];
    const uint64_t at = static_cast<uint32_t>(address.At(warp, lane));
    if (bytes != 0) state_.memory.Clear(HostAt(warp, lane, Space::kShared, at, bytes), bytes);
  });
}

void WarpValues::AfterParameter(const Warp& warp, const Op& op, const ElementRule& rule,
                                uint32_t lanes) {
  const bool single = TypeBits(rule.type) == 32;
  for (size_t k = 0; k < rule.vector; ++k) {
    const uint32_t slot = op.slots[k];
    if (slot == kNoSlot) continue;
    ClearRegister(slot, lanes);
    if (!single || BytesOf(slot) != 4) continue;
    const float value = warp.Reg<float>(slot)[std::countr_zero(lanes)];
    if (!IsUsualConstant(value)) continue;
    const Element element = ElementOfConstant(value);
    if (SameElement(element, ElementOfFloat(value))) continue;
    ForEachLane(lanes, [&](int lane) { Write(slot, lane, 0, Type::kF32, element); });
  }
}

// Matrices of 16-bit elements. ldmatrix takes their lines from memory, movmatrix from a register.
// Two elements of a line that go to one register move together: they may be an f32.
void WarpValues::BeforeMatrix(const Warp& warp, const Op& op, const ElementRule& rule) {
  const bool loads = rule.kind == RuleKind::kLoadMatrix;
  moves_elements_ = true;
  const LineFragment fragment =
      rule.transposed || !loads ? LineFragment::kColumns : LineFragment::kRows;
  results_ = {op.slots, loads ? rule.vector : size_t{1}};
  const size_t bytes = fragment == LineFragment::kRows ? 4 : 2;
  for (int k = 0; k < static_cast<int>(results_.size()); ++k) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (size_t i = 0; i < 4; i += bytes) {
        const LinePlace place = LinePlaceOf(fragment, 0, lane, static_cast<int>(i));
        if (loads) {
          const uint64_t line = AddressOf(kernel_, op).At(warp, 8 * k + place.line);
          const uint8_t* host = HostAt(warp, lane, rule.space, static_cast<uint32_t>(line), 16);
          StageMemory(k, i, lane, host + place.byte, bytes);
        } else {
          Stage(0, i, op.slots[1], place.line * 4 + place.byte / 4,
                static_cast<size_t>(place.byte % 4), bytes);
        }
      }
    }
  }
}

void WarpValues::AfterStoreMatrix(const Warp& warp, const Op& op, const ElementRule& rule) {
  const LineFragment fragment = rule.transposed ? LineFragment::kColumns : LineFragment::kRows;
  const size_t bytes = fragment == LineFragment::kRows ? 4 : 2;
  for (int k = 0; k < rule.vector; ++k) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (size_t i = 0; i < 4; i += bytes) {
        const LinePlace place = LinePlaceOf(fragment, 0, lane, static_cast<int>(i));
        const uint64_t line = AddressOf(kernel_, op).At(warp, 8 * k + place.line);
        uint8_t* host = HostAt(warp, lane, rule.space, static_cast<uint32_t>(line), 16);
        state_.memory.FromBlock(host + place.byte, registers_, Place(op.slots[k], lane) + i, bytes);
      }
    }
  }
}

// Lanes act one after the other. Atomics execute at once, so memory may change before.
void WarpValues::BeforeAtomic(const Warp& warp, const Op& op, const ElementRule& rule,
                              uint32_t lanes) {
  const auto bytes = static_cast<size_t>(TypeBits(rule.type) / 8);
  const FloatFormatOf format = FloatFormatOfType(rule.type);
  const bool adds = rule.operation == FloatOperation::kAdd;
  const size_t parts = adds ? static_cast<size_t>(format.count * rule.vector) : 0;
  elements_.assign(kLanes * parts, kUnknownElement);
  ForEachLane(lanes, [&](int lane) {
    const uint64_t address = AddressOf(kernel_, op).At(warp, lane);
    uint8_t* host = HostAt(warp, lane, rule.space, address, bytes * rule.vector);
    if (!adds) return state_.memory.Clear(host, bytes * rule.vector);
    for (size_t part = 0; part < parts; ++part) {
      uint8_t* at = host + part * static_cast<size_t>(format.bytes);
      Element& old = elements_[static_cast<size_t>(lane) * parts + part];
      if (!state_.memory.Get(at, format.bytes, &old)) old = ElementOfBits(format.type, at);
      const size_t k = part / static_cast<size_t>(format.count);
      const auto offset = static_cast<int>(part) % format.count * format.bytes;
      const uint32_t slot = op.slots[k + (rule.returns ? rule.vector : 0)];
      const Element sum = Add(old, Read(warp, slot, lane, offset, format.type));
      if (sum.known()) {
        state_.memory.Set(at, format.bytes, sum);
      } else {
        state_.memory.Clear(at, static_cast<size_t>(format.bytes));
      }
    }
  });
}

void WarpValues::AfterAtomic(const Op& op, const ElementRule& rule, uint32_t lanes) {
  if (!rule.returns) return;
  const FloatFormatOf format = FloatFormatOfType(rule.type);
  for (size_t k = 0; k < rule.vector; ++k) {
    const uint32_t slot = op.slots[k];
    if (slot == kNoSlot) continue;
    ClearRegister(slot, lanes);
    if (elements_.empty()) continue;
    const auto count = static_cast<size_t>(format.count);
    ForEachLane(lanes, [&](int lane) {
      for (size_t part = 0; part < count; ++part) {
        const size_t place = (static_cast<size_t>(lane) * rule.vector + k) * count + part;
        Write(slot, lane, static_cast<int>(part) * format.bytes, format.type, elements_[place]);
      }
    });
  }
}

}  // namespace tilelang::emulator
