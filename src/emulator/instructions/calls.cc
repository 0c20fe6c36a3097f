// call: what it calls; vprintf, __assertfail, malloc and free are built in.
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/machine.h"
#include "emulator/memory/hex.h"

namespace tilelang::emulator {
namespace {

// Slots that hold the addresses, in local memory, of a built-in function's arguments and result.
struct BuiltinCall {
  std::vector<uint32_t> arguments;
  uint32_t result = kNoSlot;
};

template <typename T>
T ReadArgument(Warp& w, int lane, const BuiltinCall& call, size_t i) {
  const uint64_t address = w.Reg<uint64_t>(call.arguments[i])[lane];
  T value;
  std::memcpy(
      &value,
      ThreadAccess(w, lane, Space::kLocal, address, sizeof(T), sizeof(T), AccessKind::kRead),
      sizeof(T));
  return value;
}

template <typename T>
void WriteResult(Warp& w, int lane, const BuiltinCall& call, T value) {
  if (call.result == kNoSlot) return;
  const uint64_t address = w.Reg<uint64_t>(call.result)[lane];
  std::memcpy(
      ThreadAccess(w, lane, Space::kLocal, address, sizeof(T), sizeof(T), AccessKind::kWrite),
      &value, sizeof(T));
}

// A zero-terminated string at a generic address.
std::string ReadString(Warp& w, int lane, uint64_t address) {
  std::string text;
  while (true) {
    char c = static_cast<char>(
        *ThreadAccess(w, lane, Space::kGeneric, address++, 1, 1, AccessKind::kRead));
    if (!c) return text;
    text += c;
  }
}

// Formats as C's printf, arguments read from the thread's buffer of naturally aligned values.
class Formatter {
 public:
  Formatter(Warp& w, int lane, uint64_t arguments) : w_(w), lane_(lane), next_(arguments) {}

  std::string Run(const std::string& format) {
    std::string text;
    for (size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%') {
        text += format[i];
      } else {
        text += Specifier(format, &i);
      }
    }
    return text;
  }

  // Returns how many arguments were taken, which is what CUDA's printf returns.
  int32_t arguments() const { return taken_; }

 private:
  template <typename T>
  T Next() {
    ++taken_;
    next_ = (next_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(
        &value,
        ThreadAccess(w_, lane_, Space::kGeneric, next_, sizeof(T), sizeof(T), AccessKind::kRead),
        sizeof(T));
    next_ += sizeof(T);
    return value;
  }

  std::string Specifier(const std::string& format, size_t* i) {
    const size_t end = format.find_first_not_of("0123456789-+ #.*hljztL", *i + 1);
    const bool known =
        end != std::string::npos && kConversions.find(format[end]) != kConversions.npos;
    if (!known) return "%";  // the host's printf must not see what is none of C's conversions
    std::string flags;
    bool wide = false;
    for (size_t k = *i; k < end; ++k) {
      char c = format[k];
      if (c == '*') {
        flags += std::to_string(Next<int32_t>());
      } else if (c == 'l' || c == 'j' || c == 'z' || c == 't') {
        wide = true;
      } else if (c != 'h' && c != 'L') {
        flags += c;
      }
    }
    *i = end;
    return Convert(flags, format[end], wide);
  }

  template <typename T>
  static std::string Print(const std::string& format, T value) {
    char text[512];
    std::snprintf(text, sizeof text, format.c_str(), value);
    return text;
  }

  std::string Convert(const std::string& flags, char conversion, bool wide) {
    switch (conversion) {
      case '%':
        return "%";
      case 'd':
      case 'i':
        return wide ? Print(flags + PRId64, Next<int64_t>()) : Print(flags + 'd', Next<int32_t>());
      case 'o':
      case 'u':
      case 'x':
      case 'X':
        return wide ? Print(flags + "l" + conversion, Next<unsigned long>())
                    : Print(flags + conversion, Next<uint32_t>());
      case 'c':
        return Print(flags + 'c', Next<int32_t>());
      case 'p':
        return Print("0x%" PRIx64, Next<uint64_t>());
      case 's':
        return Print(flags + 's', ReadString(w_, lane_, Next<uint64_t>()).c_str());
      default:
        return Print(flags + conversion, Next<double>());
    }
  }

  static constexpr std::string_view kConversions = "diouxXeEfFgGaAcsp%";

  Warp& w_;
  int lane_;
  uint64_t next_;
  int32_t taken_ = 0;
};

// A launch keeps what it prints until its end.
constexpr uint64_t kMaxPrinted = 256 << 20;

void Print(Warp& w, int lane, const std::string& text) {
  Launch& launch = w.cta.cluster.launch;
  std::lock_guard<std::mutex> lock(launch.mutex);
  launch.printed += text.size();
  if (launch.printed > kMaxPrinted) {
    Fail(w.Here(lane), "too-large",
         "the launch prints more than " + std::to_string(kMaxPrinted) + " bytes");
  }
  launch.output[w.cta.linear_id] += text;
}

Flow Printf(Warp& w, const Op& op, uint32_t mask) {
  const BuiltinCall& call = op.Extra<BuiltinCall>();
  ForEachLane(mask, [&](int lane) {
    std::string format = ReadString(w, lane, ReadArgument<uint64_t>(w, lane, call, 0));
    Formatter formatter(w, lane, ReadArgument<uint64_t>(w, lane, call, 1));
    const std::string text = formatter.Run(format);
    WriteResult(w, lane, call, formatter.arguments());
    Print(w, lane, text);
  });
  ++w.changes;
  return Flow::kNext;
}

// __assertfail(message, file, line, function, size of a character)
Flow AssertFail(Warp& w, const Op& op, uint32_t mask) {
  const BuiltinCall& call = op.Extra<BuiltinCall>();
  int lane = __builtin_ctz(mask);
  auto text = [&](size_t i) {
    return ReadString(w, lane, ReadArgument<uint64_t>(w, lane, call, i));
  };
  uint32_t line = ReadArgument<uint32_t>(w, lane, call, 2);
  const Dim3& block = w.cta.cluster.launch.options.block;
  const uint32_t thread = w.index * kLanes + lane;
  std::string threads = "in thread (" + std::to_string(thread % block.x) + ", " +
                        std::to_string(thread / block.x % block.y) + ", " +
                        std::to_string(thread / (block.x * block.y)) + ")";
  int others = __builtin_popcount(mask) - 1;
  if (others > 0) threads += " and " + std::to_string(others) + " more of its warp";
  Fail(w.Here(lane), "assert",
       "assertion `" + text(0) + "` failed " + threads + " (" + text(3) + ", " + text(1) + ":" +
           std::to_string(line) + ")");
}

// --- the heap of device code ------------------------------------------------------------------

Flow Allocate(Warp& w, const Op& op, uint32_t mask) {
  const BuiltinCall& call = op.Extra<BuiltinCall>();
  GlobalMemory& global = w.cta.cluster.launch.global;
  ForEachLane(mask, [&](int lane) {
    WriteResult(w, lane, call, global.AllocateOnHeap(ReadArgument<uint64_t>(w, lane, call, 0)));
  });
  ++w.changes;
  return Flow::kNext;
}

Flow Free(Warp& w, const Op& op, uint32_t mask) {
  const BuiltinCall& call = op.Extra<BuiltinCall>();
  GlobalMemory& global = w.cta.cluster.launch.global;
  ForEachLane(mask, [&](int lane) {
    const uint64_t address = ReadArgument<uint64_t>(w, lane, call, 0);
    if (address == 0 || global.FreeOnHeap(address)) return;
    Fail(w.Here(lane), "illegal-operand",
         "free of " + Hex(address) +
             ": this block is not from malloc of device code, or has been freed",
         address);
  });
  ++w.changes;
  return Flow::kNext;
}

struct Builtin {
  const char* name;
  Handler handler;
  size_t arguments;
};

constexpr Builtin kBuiltins[] = {{"vprintf", Printf, 2},
                                 {"__assertfail", AssertFail, 5},
                                 {"malloc", Allocate, 1},
                                 {"free", Free, 1}};

const std::vector<ptx::Operand>& Tuple(const ptx::Operand& operand) { return operand.elements; }

uint32_t AddressOf(Decoder& d, const ptx::Operand& operand) {
  Placement placement;
  if (!d.function().FindVariable(operand.name, &placement) || placement.space != Space::kLocal) {
    d.Illegal("argument '" + operand.name + "' of a call is no .param variable");
  }
  return d.function().AddressSlot(placement, 0, 64);
}

void DecodeBuiltin(Decoder& d, const Builtin& builtin, const std::vector<ptx::Operand>& results,
                   const std::vector<ptx::Operand>& arguments) {
  if (arguments.size() != builtin.arguments) {
    d.Illegal("wrong number of arguments of a built-in function");
  }
  BuiltinCall call;
  for (const ptx::Operand& argument : arguments) call.arguments.push_back(AddressOf(d, argument));
  if (!results.empty()) call.result = AddressOf(d, results[0]);
  d.MakeExtra<BuiltinCall>(std::move(call));
  d.op.handler = builtin.handler;
}

void DecodeCall(Decoder& d) {
  d.mods.Take("uni");
  size_t next = 0;
  std::vector<ptx::Operand> results, arguments;
  if (d.operand(0).kind == ptx::Operand::Kind::kTuple) results = Tuple(d.operand(next++));
  const ptx::Operand& callee = d.operand(next++);
  if (d.Has(next)) arguments = Tuple(d.operand(next++));
  if (callee.kind != ptx::Operand::Kind::kName) d.Illegal("a call names a function or a register");
  if (d.function().FindRegister(callee.name)) {
    if (d.Has(next)) d.operand(next);  // prototype: what is passed tells as much
    return d.function().CallByAddress(d, callee, results, arguments);
  }
  if (!d.function().context().Defines(callee.name)) {
    for (const Builtin& builtin : kBuiltins) {
      if (callee.name == builtin.name) return DecodeBuiltin(d, builtin, results, arguments);
    }
  }
  d.function().Call(d, callee.name, results, arguments);
}

}  // namespace

void RegisterCalls() { FamilyRegistry::Add("call", DecodeCall); }

}  // namespace tilelang::emulator
