// The intrinsics: what a Call by name means, for code generation, synchronisation and checks.
#ifndef TILELANG_IR_INTRINSICS_H_
#define TILELANG_IR_INTRINSICS_H_

#include <span>
#include <string_view>

#include "ir/expr.h"

namespace tilelang::ir {

// Says how a call is written in CUDA C++; `spelling` is the name in it.
enum class PrintRule : uint8_t {
  kFunction,   // spelling(args)
  kMath,       // spelling##f of floats, spelling of doubles; 16-bit and 8-bit floats via float
  kFast,       // spelling of floats; every other type via float
  kPredicate,  // spelling of float or double, narrower floats converted to float; gives bool
  kRounded,    // the last argument is a rounding mode "rn", "rz", "ru" or "rd": spelling_rn(args)
  kAtomic,     // spelling<order>(args), the order from attrs["memory_order"]
  kSpecial,    // the printer knows it by name
};

// The threads that execute the call together. The call must not stand in control flow that divides
// them.
enum class Participants : uint8_t { kThread, kWarp, kCta };

enum class Proxy : uint8_t { kGeneric, kAsync };

// Hardware that not every target has.
enum class Feature : uint8_t { kNone, kTma, kTcgen05, kWgmma, kLaunchControl };

struct Intrinsic {
  std::string_view name;
  Builtin builtin = Builtin::kNone;
  PrintRule print = PrintRule::kFunction;
  std::string_view spelling = {};
  // The device header that declares `spelling`, or "" when common.h or NVRTC does.
  std::string_view header = {};
  // Bit i: the call reads or writes memory at its argument i, an address.
  uint32_t reads = 0;
  uint32_t writes = 0;
  Proxy proxy = Proxy::kGeneric;
  Participants participants = Participants::kThread;
  // The feature that the target must have.
  Feature needs = Feature::kNone;
  // Threads wait for others, or take what others give up: a program that calls it has roles of its
  // own.
  bool of_roles = false;
  // No effect but its value: may be moved, repeated or dropped.
  bool pure = false;
  // The multi-function unit computes it for one float.
  bool mufu = false;
  // The number of adjacent elements of an atomic operation, or the degree of a polynomial.
  int count = 1;
};

// The intrinsic of that name, or null: device functions ("tl::...") that are not listed and
// call_extern may touch everything that an address among their arguments points to.
const Intrinsic* FindIntrinsic(std::string_view name);
// A function that neither the compiler nor the language knows.
bool IsUnknown(const CallNode* call);
bool IsAtomic(const CallNode* call);
std::span<const Intrinsic> AllIntrinsics();

// The effect of a call on one buffer. `index` is the element at which the access starts, null when
// any element may be touched; the access covers `elements` from there, 0 meaning all.
struct MemoryEffect {
  Buffer buffer;
  Expr index;
  int64_t elements = 0;
  bool read = false;
  bool write = false;
  Proxy proxy = Proxy::kGeneric;
  bool by_warpgroup = false;  // each warpgroup waits for its own part
  // For a buffer that the call names by an address or a descriptor: how many elements from there on
  // it may touch (for a descriptor: which of equal parts of the buffer); 0: all.
  int64_t extent = 0;
};
// Returns the effects of the call itself, without the loads in its arguments' values. Addresses
// among the arguments follow the table. Buffers in attrs["reads"] and attrs["writes"] are operands
// that the call names indirectly (descriptors). attrs["async"] = true says that the accesses go
// through the async proxy, attrs["by_warpgroup"] = true that wgmma makes them; attrs["elements"] :
// int, how many elements each address covers; attrs["extents"] : Array<int>, the extents of the
// buffers in attrs["reads"] or attrs["writes"].
std::vector<MemoryEffect> CallEffects(const CallNode* call);
// The proxy of the call's accesses.
Proxy ProxyOf(const CallNode* call);

// The effect of a call on tensor memory: a box of lanes and 32-bit columns from an address on,
// within the columns [first, end) of a tile, counted from the first column that the CTA has.
struct TmemEffect {
  Expr address;
  int64_t lanes = 0;
  int64_t columns = 0;
  bool write = false;
  int64_t first = 0;
  int64_t end = 0;
};
// attrs["tmem"] : Array<Array<int>>, (argument, lanes, columns, whether it writes, first, end) of
// each.
std::vector<TmemEffect> TmemEffects(const CallNode* call);
// An attribute of a call: warpgroup number i keeps to rows [128 * i, 128 * (i + 1)) of the tile.
inline constexpr const char* kRowsOfWarpgroups = "rows_of_warpgroups";

}  // namespace tilelang::ir

#endif  // TILELANG_IR_INTRINSICS_H_
