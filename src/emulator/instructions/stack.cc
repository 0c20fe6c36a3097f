// Calls and returns of functions that are not inlined; alloca and the stack's top.
#include <bit>

#include "emulator/base/demangle.h"
#include "emulator/core/call_stack.h"
#include "emulator/core/control_handlers.h"
#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/memory/hex.h"

namespace tilelang::emulator {
namespace {

bool Passes(const std::vector<ValuePlace>& actuals, const std::vector<ValuePlace>& formals) {
  bool same = actuals.size() == formals.size();
  for (size_t i = 0; same && i < actuals.size(); ++i) same = actuals[i].bits == formals[i].bits;
  return same;
}

[[noreturn]] void FailSignature(const Warp& w, int lane, const std::string& name) {
  Fail(
      w.Here(lane), "illegal-operand",
      "call of '" + ShortName(name) +
          "' by its address: the call has other arguments or results, or the function has no body");
}

const DeviceFunction& FunctionAt(Warp& w, int lane, const CallSite& site) {
  const Kernel& kernel = w.cta.cluster.kernel();
  const uint64_t address = w.Reg<uint64_t>(site.address)[lane];
  const auto found = kernel.by_address.find(address);
  if (found == kernel.by_address.end()) {
    const uint64_t number = (address - kCodeWindow) / kFunctionBytes - 1;
    const auto& names = kernel.module->functions;
    if (number >= names.size() || address % kFunctionBytes) {
      Fail(w.Here(lane), "illegal-operand",
           "call of " + Hex(address) + ", which is not the address of a function");
    }
    FailSignature(w, lane, names[number]);
  }
  const DeviceFunction& function = *found->second;
  if (!Passes(site.arguments, function.parameters) || !Passes(site.results, function.results)) {
    FailSignature(w, lane, function.name);
  }
  return function;
}

// The lanes that call what the first one calls, which run together from there on.
uint32_t CallAlike(Warp& w, const CallSite& site, uint32_t mask) {
  if (site.function) return mask;
  const uint64_t* addresses = w.Reg<uint64_t>(site.address);
  const uint64_t first = addresses[std::countr_zero(mask)];
  uint32_t alike = 0;
  ForEachLane(mask, [&](int lane) { alike |= (addresses[lane] == first ? 1u : 0u) << lane; });
  return alike;
}

Flow Call(Warp& w, const Op& op, uint32_t mask) {
  const auto& site = op.Extra<CallSite>();
  const uint32_t lanes = CallAlike(w, site, mask);
  const DeviceFunction& function =
      site.function ? *site.function : FunctionAt(w, std::countr_zero(lanes), site);
  ForEachLane(lanes, [&](int lane) { w.calls().Enter(lane, site, function, w.Pc() + 1); });
  if (lanes == w.split().mask) {
    ++w.split().depth;
    return w.Jump(function.entry);
  }
  w.SplitOff(lanes, function.entry, 1);
  // The others come back here: they call what their own address tells.
  return w.Jump(lanes == mask ? w.Pc() + 1 : w.Pc());
}

// Lanes that were called from one place go on together.
Flow Return(Warp& w, const Op&, uint32_t mask) {
  uint32_t places[kLanes];
  ForEachLane(mask, [&](int lane) { places[lane] = w.calls().Leave(lane); });
  while (mask) {
    const uint32_t place = places[std::countr_zero(mask)];
    uint32_t lanes = 0;
    ForEachLane(mask, [&](int lane) { lanes |= (places[lane] == place ? 1u : 0u) << lane; });
    if (lanes == w.split().mask) {
      --w.split().depth;
      return w.Jump(place);
    }
    w.SplitOff(lanes, place, -1);
    mask &= ~lanes;
  }
  return w.Jump(w.Pc() + 1);
}

// --- alloca -----------------------------------------------------------------------------------

template <typename T>
Flow Allocate(Warp& w, const Op& op, uint32_t mask) {
  T* pointer = w.Reg<T>(op.a[0]);
  const T* bytes = w.Reg<T>(op.a[1]);
  ForEachLane(mask, [&](int lane) {
    pointer[lane] = w.calls().Allocate(lane, bytes[lane], static_cast<uint32_t>(op.immediate));
  });
  return Flow::kNext;
}

template <typename T>
Flow SaveTop(Warp& w, const Op& op, uint32_t mask) {
  T* top = w.Reg<T>(op.a[0]);
  ForEachLane(mask, [&](int lane) { top[lane] = w.calls().top(lane); });
  return Flow::kNext;
}

template <typename T>
Flow RestoreTop(Warp& w, const Op& op, uint32_t mask) {
  const T* top = w.Reg<T>(op.a[0]);
  ForEachLane(mask, [&](int lane) { w.calls().SetTop(lane, top[lane]); });
  return Flow::kNext;
}

Type AddressType(Decoder& d) {
  const Type type = d.mods.TakeType();
  if (type != Type::kU32 && type != Type::kU64) d.Illegal("the type is .u32 or .u64");
  d.function().kernel().uses_stack = true;
  return type;
}

void DecodeAllocate(Decoder& d) {
  const Type type = AddressType(d);
  d.PushDestination(0, type);
  d.PushSource(1, type);
  constexpr int64_t kDefaultAlign = 8, kMaxAlign = 1024;
  d.op.immediate = d.Has(2) ? d.Integer(d.operand(2)) : kDefaultAlign;
  const auto align = static_cast<uint64_t>(d.op.immediate);
  if (!std::has_single_bit(align) || align > kMaxAlign) {
    d.Illegal("alloca: the alignment must be a power of two up to " + std::to_string(kMaxAlign));
  }
  d.op.handler = type == Type::kU64 ? Allocate<uint64_t> : Allocate<uint32_t>;
}

void DecodeSave(Decoder& d) {
  const Type type = AddressType(d);
  d.PushDestination(0, type);
  d.op.handler = type == Type::kU64 ? SaveTop<uint64_t> : SaveTop<uint32_t>;
}

void DecodeRestore(Decoder& d) {
  const Type type = AddressType(d);
  d.PushSource(0, type);
  d.op.handler = type == Type::kU64 ? RestoreTop<uint64_t> : RestoreTop<uint32_t>;
}

}  // namespace

Handler CallHandler() { return Call; }
Handler ReturnHandler() { return Return; }

void RegisterStack() {
  FamilyRegistry::Add("alloca", DecodeAllocate);
  FamilyRegistry::Add("stacksave", DecodeSave);
  FamilyRegistry::Add("stackrestore", DecodeRestore);
}

}  // namespace tilelang::emulator
