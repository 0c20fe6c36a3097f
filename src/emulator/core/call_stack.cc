#include "emulator/core/call_stack.h"

#include <cstring>
#include <functional>
#include <string_view>

namespace tilelang::emulator {
namespace {

// The least memory of a call, for the return address and saved registers.
constexpr uint32_t kCallBytes = 32;

uint32_t BytesOf(uint64_t bits) { return static_cast<uint32_t>((bits + 7) / 8); }

}  // namespace

uint32_t CallStack::First() const { return kLocalBase + warp_.cta.cluster.kernel().local_bytes; }

void CallStack::Reset() {
  for (Lane& lane : lanes_) {
    lane.calls.clear();
    lane.saved.clear();
    lane.top = First();
  }
}

uint8_t* CallStack::At(int lane, uint32_t address) {
  return warp_.local(lane) + (address - kLocalBase);
}

uint32_t CallStack::Grow(int lane, uint64_t bytes, uint32_t align) {
  Lane& here = lanes_[lane];
  const uint32_t address = (here.top + align - 1) / align * align;
  const uint64_t left = uint64_t{First()} + kStackBytes - address;
  if (address > First() + kStackBytes || bytes > left) {
    Fail(warp_.Here(lane), "stack-overflow",
         "the thread's stack of " + std::to_string(kStackBytes) + " bytes has no room for " +
             std::to_string(bytes) + " bytes more, " + std::to_string(here.calls.size()) +
             " calls deep");
  }
  here.top = address + static_cast<uint32_t>(bytes);
  return address;
}

// --- values -----------------------------------------------------------------------------------

void CallStack::Read(int lane, FunctionRegister reg, Values* out) const {
  if (reg.bits == 1) {
    out->push_back(*warp_.Reg<uint32_t>(reg.slot) >> lane & 1);
    return;
  }
  const uint32_t bytes = BytesOf(reg.bits);
  const uint8_t* value = warp_.Reg<uint8_t>(reg.slot) + size_t{bytes} * lane;
  out->insert(out->end(), value, value + bytes);
}

// Returns what follows in `bytes`.
const uint8_t* CallStack::Write(int lane, FunctionRegister reg, const uint8_t* bytes) {
  if (reg.bits == 1) {
    warp_.SetPredicate(reg.slot, 1u << lane, *bytes ? kAllLanes : 0);
    return bytes + 1;
  }
  const uint32_t count = BytesOf(reg.bits);
  std::memcpy(warp_.Reg<uint8_t>(reg.slot) + size_t{count} * lane, bytes, count);
  return bytes + count;
}

void CallStack::Read(int lane, const ValuePlace& place, const uint8_t* memory, Values* out) const {
  if (place.in_register) return Read(lane, {place.slot, static_cast<uint32_t>(place.bits)}, out);
  out->insert(out->end(), memory, memory + BytesOf(place.bits));
}

const uint8_t* CallStack::Write(int lane, const ValuePlace& place, uint8_t* memory,
                                const uint8_t* bytes) {
  if (place.in_register) {
    return Write(lane, FunctionRegister{place.slot, static_cast<uint32_t>(place.bits)}, bytes);
  }
  std::memcpy(memory, bytes, BytesOf(place.bits));
  return bytes + BytesOf(place.bits);
}

// Returns the memory of an argument or a result of a call.
uint8_t* CallStack::Memory(int lane, const ValuePlace& place) {
  if (place.in_register) return nullptr;
  return At(lane, static_cast<uint32_t>(warp_.Reg<uint64_t>(place.slot)[lane]));
}

// --- calls ------------------------------------------------------------------------------------

void CallStack::Enter(int lane, const CallSite& site, const DeviceFunction& function,
                      uint32_t return_pc) {
  Lane& here = lanes_[lane];
  Call call{&site, &function, return_pc, 0, here.top};
  // Reads the arguments before the registers of the caller change: the caller may be this function.
  passed_.clear();
  for (const ValuePlace& argument : site.arguments) {
    Read(lane, argument, Memory(lane, argument), &passed_);
  }
  call.frame = Grow(lane, function.frame_bytes + kCallBytes, kFrameAlign);
  if (function.reentrant) {
    for (const FunctionRegister reg : function.registers) Read(lane, reg, &here.saved);
  }
  for (const FrameAddress& address : function.addresses) {
    const uint64_t value = call.frame + address.offset;
    Write(lane, address.slot, reinterpret_cast<const uint8_t*>(&value));
  }
  const uint8_t* next = passed_.data();
  for (const ValuePlace& parameter : function.parameters) {
    next = Write(lane, parameter, At(lane, call.frame + parameter.offset), next);
  }
  here.calls.push_back(call);
}

uint32_t CallStack::Leave(int lane) {
  Lane& here = lanes_[lane];
  const Call call = here.calls.back();
  const DeviceFunction& function = *call.function;
  here.calls.pop_back();
  passed_.clear();
  for (const ValuePlace& result : function.results) {
    Read(lane, result, At(lane, call.frame + result.offset), &passed_);
  }
  if (function.reentrant) {
    size_t bytes = 0;
    for (const FunctionRegister reg : function.registers) bytes += BytesOf(reg.bits);
    const uint8_t* next = here.saved.data() + (here.saved.size() - bytes);
    for (const FunctionRegister reg : function.registers) next = Write(lane, reg, next);
    here.saved.resize(here.saved.size() - bytes);
  }
  const uint8_t* next = passed_.data();
  for (const ValuePlace& result : call.site->results) {
    next = Write(lane, result, Memory(lane, result), next);
  }
  here.top = call.top;
  return call.return_pc;
}

// --- alloca -----------------------------------------------------------------------------------

uint32_t CallStack::Allocate(int lane, uint64_t bytes, uint32_t align) {
  return Grow(lane, bytes, align);
}

void CallStack::SetTop(int lane, uint64_t top) {
  Lane& here = lanes_[lane];
  const uint32_t first =
      here.calls.empty()
          ? First()
          : here.calls.back().frame + here.calls.back().function->frame_bytes + kCallBytes;
  if (top < first || top > here.top) {
    Fail(warp_.Here(lane), "illegal-operand",
         "stackrestore: no stacksave of this call of the function gave " + std::to_string(top));
  }
  here.top = static_cast<uint32_t>(top);
}

uint64_t CallStack::Digest(int lane) const {
  const Lane& here = lanes_[lane];
  const auto* saved = reinterpret_cast<const char*>(here.saved.data());
  uint64_t digest = std::hash<std::string_view>{}({saved, here.saved.size()});
  for (const Call& call : here.calls) digest = digest * 0x9E3779B97F4A7C15u + call.return_pc;
  return digest;
}

}  // namespace tilelang::emulator
