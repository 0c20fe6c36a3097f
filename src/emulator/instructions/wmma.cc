// wmma.load, wmma.store and wmma.mma. The PTX ISA leaves open where the registers of a warp hold
// the elements; here they lie as mma.sync has them, in blocks of 8 rows (or, of B, columns).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/instructions/memory_access.h"
#include "emulator/numerics/float_formats.h"
#include "emulator/numerics/matrix_multiplier.h"

namespace tilelang::emulator {
namespace {

constexpr int kMostLines = 32;
constexpr std::string_view kSquareAndWide = "m16n16k16 m8n32k16 m32n8k16";

struct WmmaType {
  std::string_view name;
  std::string_view shapes;
  MatrixType type;  // of no account to f64
  int bits;         // of a container
  int elements;     // in it
};

constexpr WmmaType kWmmaTypes[] = {
    {"f16", kSquareAndWide, MatrixType::kF16, 16, 1},
    {"bf16", kSquareAndWide, MatrixType::kBf16, 16, 1},
    {"tf32", "m16n16k8", MatrixType::kTf32, 32, 1},
    {"f64", "m8n8k4", MatrixType::kF16, 64, 1},
    {"s8", kSquareAndWide, MatrixType::kS8, 8, 1},
    {"u8", kSquareAndWide, MatrixType::kU8, 8, 1},
    {"s4", "m8n8k32", MatrixType::kS4, 4, 1},
    {"u4", "m8n8k32", MatrixType::kU4, 4, 1},
    {"b1", "m8n8k128", MatrixType::kB1, 8, 8},
};

// Says how registers hold a matrix: `lines` rows of A, C and D, or columns of B, of `length`
// containers.
struct WmmaTile {
  int lines = 0;
  int length = 0;
  int bits = 32;
  bool accumulator = false;
  int given = 0;  // registers of the instruction; beyond natural() they are copies

  int per() const { return bits == 64 ? 1 : 32 / bits; }
  int natural() const { return std::max(1, lines * length / kLanes / per()); }

  struct Place {
    int line;
    int at;
  };
  Place At(int lane, int r, int e) const {
    const int group = lane / 4, c = lane % 4, blocks = lines / 8;
    r %= natural();
    if (!accumulator) {
      return {group + 8 * (r % blocks), r / blocks * 4 * per() + c * per() + e};
    }
    const int i = r * per() + e, block = i / 2;
    return {group + 8 * (block % blocks), 2 * c + i % 2 + 8 * (block / blocks)};
  }
};

struct WmmaShape {
  int m = 0, n = 0, k = 0;
};

WmmaShape TakeWmmaShape(Decoder& d) {
  constexpr std::array<std::string_view, 7> kShapes = {
      "m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128"};
  WmmaShape shape;
  for (const std::string_view name : kShapes) {
    if (!d.mods.Take(name)) continue;
    std::sscanf(std::string(name).c_str(), "m%dn%dk%d", &shape.m, &shape.n, &shape.k);
    return shape;
  }
  d.Illegal(
      "wmma needs a shape: m16n16k16, m8n32k16, m32n8k16, m16n16k8, m8n8k4, m8n8k32, m8n8k128");
}

const WmmaType& OperandType(Decoder& d, const std::string& name, const WmmaShape& shape) {
  const std::string spelled =
      "m" + std::to_string(shape.m) + "n" + std::to_string(shape.n) + "k" + std::to_string(shape.k);
  for (const WmmaType& type : kWmmaTypes) {
    if (type.name != name) continue;
    if ((" " + std::string(type.shapes) + " ").find(" " + spelled + " ") != std::string::npos) {
      return type;
    }
    d.Illegal("wmma of ." + name + " has no shape ." + spelled);
  }
  d.Illegal("wmma does not multiply ." + name);
}

WmmaTile OperandTile(const WmmaType& type, const WmmaShape& shape, bool of_a) {
  WmmaTile tile{of_a ? shape.m : shape.n, shape.k / type.elements, type.bits};
  tile.given = type.name == "f16" ? 8 : tile.natural();
  return tile;
}

WmmaTile AccumulatorTile(const std::string& type, const WmmaShape& shape) {
  WmmaTile tile{shape.m, shape.n, type == "f16" ? 16 : type == "f64" ? 64 : 32, true};
  tile.given = tile.natural();
  return tile;
}

void CheckAccumulator(Decoder& d, const std::string& type, const WmmaShape& shape) {
  const bool fits = type == "f64"   ? shape.k == 4
                    : type == "f16" ? shape.k == 16
                    : type == "f32" ? shape.k == 16 || shape.k == 8
                    : type == "s32" ? shape.k != 4 && shape.k != 8
                                    : false;
  if (!fits) d.Illegal("wmma of this shape does not have accumulators of ." + type);
}

Type RegisterTypeOf(const std::string& type) {
  if (type == "f64") return Type::kF64;
  return type == "f32" ? Type::kF32 : type == "s32" ? Type::kS32 : Type::kB32;
}

void PushTile(Decoder& d, size_t index, const WmmaTile& tile, Type type, bool write) {
  for (const ptx::Operand* each : d.Vector(d.operand(index), tile.given, "registers")) {
    d.Push(write ? d.Destination(*each, type) : d.Source(*each, type));
  }
}

// --- load and store -----------------------------------------------------------------------------

struct WmmaMove {
  AddressOperand address;
  Space space = Space::kGeneric;
  WmmaTile tile;
  bool along_lines = true;  // elements of a line lie together in memory
  bool has_stride = false;
  uint32_t stride_slot = 0;
  int element_bits = 0;
  int elements = 1;
};

// The stride from one row or column to the next, in elements.
int64_t StrideOf(Warp& w, const WmmaMove& move, uint32_t mask) {
  const int first = std::countr_zero(mask);
  const uint64_t address = move.address.At(w, first);
  const uint32_t* strides = move.has_stride ? w.Reg<uint32_t>(move.stride_slot) : nullptr;
  ForEachLane(mask, [&](int lane) {
    if (move.address.At(w, lane) != address || (strides && strides[lane] != strides[first])) {
      Fail(w.Here(lane), "illegal-operand",
           "all threads of the warp must give the same address and stride to wmma", address,
           "memory");
    }
  });
  // PTX ISA: each row or column starts at a multiple of the fragment's size; CUDA asks for no more
  // than 16 bytes of the stride.
  const uint64_t align = static_cast<uint64_t>(move.tile.given) * (move.tile.bits == 64 ? 8 : 4);
  if (address % align != 0) {
    Fail(w.Here(first), "misaligned",
         "the address of wmma must be a multiple of " + std::to_string(align), address, "memory");
  }
  const int64_t tight = (move.along_lines ? move.tile.length : move.tile.lines) * move.elements;
  if (!strides) return tight;
  const int64_t stride = static_cast<int32_t>(strides[first]);
  const int64_t step = std::min<int64_t>(16, static_cast<int64_t>(align));
  if (stride < tight || stride * move.element_bits % (8 * step) != 0) {
    Fail(w.Here(first), "illegal-operand",
         "the stride of wmma is " + std::to_string(stride) + " elements; it must be at least " +
             std::to_string(tight) + " and a multiple of " + std::to_string(step) + " bytes");
  }
  return stride;
}

// Calls visit(lane, register, element or -1 for all, address, bytes) for what lies together.
template <typename Visit>
void ForEachMemoryPart(Warp& w, const WmmaMove& move, int64_t stride, Visit visit) {
  const WmmaTile& tile = move.tile;
  const int whole = move.along_lines && !tile.accumulator ? tile.per() : 1;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t base = move.address.At(w, lane);
    for (int r = 0; r < tile.natural(); ++r) {
      for (int e = 0; e < tile.per(); e += whole) {
        const WmmaTile::Place place = tile.At(lane, r, e);
        const int64_t element = move.along_lines ? place.line * stride + place.at * move.elements
                                                 : place.at * stride + place.line;
        visit(lane, r, e, base + static_cast<uint64_t>(element * move.element_bits / 8),
              static_cast<uint32_t>(std::max(8, whole * tile.bits) / 8));
      }
    }
  }
}

Flow LoadTile(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const WmmaMove& move = op.Extra<WmmaMove>();
  const int bytes = std::max(4, move.tile.bits / 8);
  std::vector<uint64_t> values(static_cast<size_t>(move.tile.natural()) * kLanes);
  ForEachMemoryPart(
      w, move, StrideOf(w, move, mask),
      [&](int lane, int r, int e, uint64_t address, uint32_t size) {
        uint64_t part = 0;
        std::memcpy(
            &part, ThreadAccess(w, lane, move.space, address, size, size, AccessKind::kRead), size);
        values[r * kLanes + lane] |= part << (e * move.tile.bits);
      });
  for (int r = 0; r < move.tile.given; ++r) {
    uint8_t* target = w.Reg<uint8_t>(op.slots[r]);
    const uint64_t* from = &values[r % move.tile.natural() * kLanes];
    for (int lane = 0; lane < kLanes; ++lane)
      std::memcpy(target + bytes * lane, from + lane, bytes);
  }
  return Flow::kNext;
}

Flow StoreTile(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const WmmaMove& move = op.Extra<WmmaMove>();
  const int bytes = std::max(4, move.tile.bits / 8);
  ForEachMemoryPart(w, move, StrideOf(w, move, mask),
                    [&](int lane, int r, int e, uint64_t address, uint32_t size) {
                      const uint8_t* source = w.Reg<uint8_t>(op.slots[r]) + bytes * lane;
                      StoreValue(w, lane, move.space, address, source + e * move.tile.bits / 8,
                                 size);
                    });
  return Flow::kNext;
}

void TakeWmma(Decoder& d) {
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) d.Illegal("wmma needs .sync.aligned");
}

void DecodeMove(Decoder& d, bool store) {
  WmmaMove& move = d.MakeExtra<WmmaMove>();
  TakeWmma(d);
  const std::string what = d.mods.TakeOneOf({"a", "b", "c", "d"});
  const std::string layout = d.mods.TakeOneOf({"row", "col"});
  if (layout.empty()) d.Illegal("wmma needs a layout, .row or .col");
  const WmmaShape shape = TakeWmmaShape(d);
  move.space = d.mods.TakeSpace();
  if (d.mods.rest().size() != 1) d.Illegal("'" + d.inst.Spelling() + "' needs one type");
  const std::string type = d.mods.rest()[0];
  d.mods.Take(type);
  Type registers = Type::kB32;
  if (what == "a" || what == "b") {
    const WmmaType& operand = OperandType(d, type, shape);
    move.tile = OperandTile(operand, shape, what == "a");
    move.elements = operand.elements;
    if (operand.bits == 64) registers = Type::kF64;
    if (operand.bits < 8 || operand.elements > 1) {
      if ((layout == "row") != (what == "a"))
        d.Illegal("A of wmma of ." + type + " must be .row, and B .col");
    }
  } else {
    CheckAccumulator(d, type, shape);
    move.tile = AccumulatorTile(type, shape);
    registers = RegisterTypeOf(type);
  }
  move.element_bits = move.tile.bits / move.elements;
  move.along_lines = (layout == "row") != (what == "b");
  const size_t at = store ? 0 : 1;
  move.address = d.Address(d.operand(at));
  PushTile(d, 1 - at, move.tile, registers, !store);
  move.has_stride = d.Has(2);
  if (move.has_stride) move.stride_slot = d.Source(d.operand(2), Type::kU32);
  d.op.handler = store ? StoreTile : LoadTile;
}

void DecodeWmmaLoad(Decoder& d) { DecodeMove(d, false); }
void DecodeWmmaStore(Decoder& d) { DecodeMove(d, true); }

// --- mma ----------------------------------------------------------------------------------------

struct WmmaMultiply {
  MultiplierShape shape;
  bool doubles = false;
  bool widens = false;  // C is f16, D f32
  WmmaTile a, b, c, d;
};

template <typename Word, typename Each>
void ForEachOfTile(Warp& w, const uint32_t* slots, const WmmaTile& tile, Each each) {
  const Word mask = static_cast<Word>(~0ull >> (64 - tile.bits));
  for (int r = 0; r < tile.natural(); ++r) {
    const Word* words = w.Reg<Word>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int e = 0; e < tile.per(); ++e) {
        const WmmaTile::Place place = tile.At(lane, r, e);
        each(place.line, place.at, words[lane] >> (tile.bits * e) & mask);
      }
    }
  }
}

template <typename Word, typename Get>
void SetTile(Warp& w, const uint32_t* slots, const WmmaTile& tile, Get get) {
  for (int r = 0; r < tile.natural(); ++r) {
    Word* words = w.Reg<Word>(slots[r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      Word word = 0;
      for (int e = 0; e < tile.per(); ++e) {
        const WmmaTile::Place place = tile.At(lane, r, e);
        word |= static_cast<Word>(get(place.line, place.at)) << (tile.bits * e);
      }
      words[lane] = word;
    }
  }
}

// A chain of fused multiply-adds along K.
void MultiplyDoubles(Warp& w, const WmmaMultiply& form, const uint32_t* d, const uint32_t* a,
                     const uint32_t* b, const uint32_t* c) {
  double left[8][4], right[8][4], sum[8][8];
  const auto into = [](auto& matrix) {
    return [&matrix](int line, int at, uint64_t bits) {
      matrix[line][at] = std::bit_cast<double>(bits);
    };
  };
  ForEachOfTile<uint64_t>(w, a, form.a, into(left));
  ForEachOfTile<uint64_t>(w, b, form.b, into(right));
  ForEachOfTile<uint64_t>(w, c, form.c, into(sum));
  SetTile<uint64_t>(w, d, form.d, [&](int row, int column) {
    double value = sum[row][column];
    for (int k = 0; k < 4; ++k) value = std::fma(left[row][k], right[column][k], value);
    return std::bit_cast<uint64_t>(value);
  });
}

Flow MultiplyTiles(Warp& w, const Op& op, uint32_t mask) {
  if (const Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  const WmmaMultiply& form = op.Extra<WmmaMultiply>();
  const uint32_t* d = op.slots;
  const uint32_t* a = d + form.d.given;
  const uint32_t* b = a + form.a.given;
  const uint32_t* c = b + form.b.given;
  if (form.doubles) {
    MultiplyDoubles(w, form, d, a, b, c);
    return Flow::kNext;
  }
  thread_local MatrixMultiplier multiplier;
  multiplier.Start(form.shape);
  multiplier.StartA();
  ForEachOfTile<uint32_t>(w, a, form.a,
                          [&](int row, int k, uint32_t bits) { multiplier.SetA(row, k, bits); });
  ForEachOfTile<uint32_t>(
      w, b, form.b, [&](int column, int k, uint32_t bits) { multiplier.SetB(column, k, bits); });
  uint32_t cells[kMostLines][kMostLines];
  ForEachOfTile<uint32_t>(w, c, form.c, [&](int row, int column, uint32_t bits) {
    cells[row][column] =
        form.widens ? std::bit_cast<uint32_t>(F16ToF32(static_cast<uint16_t>(bits))) : bits;
  });
  for (int row = 0; row < form.shape.m; ++row) {
    multiplier.Row(row, 0, form.shape.n, true, cells[row]);
  }
  SetTile<uint32_t>(w, d, form.d, [&](int row, int column) { return cells[row][column]; });
  return Flow::kNext;
}

void TakeOperation(Decoder& d, MultiplierShape& shape, bool b1) {
  const std::string operation = d.mods.TakeOneOf({"xor", "and"});
  if (d.mods.Take("popc") != b1 || operation.empty() == b1) {
    d.Illegal("wmma.mma needs .xor.popc or .and.popc for .b1, and allows them for no other type");
  }
  shape.exclusive = operation == "xor";
}

void DecodeWmmaMultiply(Decoder& d) {
  WmmaMultiply& form = d.MakeExtra<WmmaMultiply>();
  TakeWmma(d);
  std::string layouts;
  for (const std::string& name : std::vector<std::string>(d.mods.rest())) {
    if (name != "row" && name != "col") continue;
    layouts += "." + name;
    d.mods.Take(name);
  }
  if (layouts.size() != 8) d.Illegal("wmma.mma needs the layouts of A and B");
  const WmmaShape shape = TakeWmmaShape(d);
  TakeOperation(d, form.shape, d.mods.Has("b1"));
  form.shape.saturate = d.mods.Take("satfinite");
  std::vector<std::string> types = d.mods.rest();
  for (const std::string& name : types) d.mods.Take(name);
  if (types.size() == 2) types = {types[0], "f16", "f16", types[1]};
  if (types.size() != 4) d.Illegal("wmma.mma needs the types of D and C, or of D, A, B and C");
  const WmmaType& a = OperandType(d, types[1], shape);
  const WmmaType& b = OperandType(d, types[2], shape);
  if ((a.bits < 8 || a.elements > 1) && layouts != ".row.col") {
    d.Illegal("the layouts of wmma.mma of ." + types[1] + " must be .row.col");
  }
  if (a.name != b.name) {
    d.Illegal("wmma.mma does not multiply ." + types[1] + " with ." + types[2]);
  }
  const std::string wanted = a.bits == 64 ? "f64" : IsInteger(a.type) ? "s32" : "f32";
  for (const std::string& each : {types[0], types[3]}) {
    if (each != wanted && !(a.name == "f16" && each == "f16")) {
      d.Illegal("C and D of wmma.mma of ." + types[1] + " must be ." + wanted + ", not ." + each);
    }
  }
  if (types[0] == "f16" && types[3] == "f32") d.Unsupported("wmma.mma from f32 to f16");
  if (form.shape.saturate && wanted != "s32")
    d.Unsupported("wmma.mma of floats does not allow .satfinite");
  form.widens = types[0] != types[3];
  form.doubles = a.bits == 64;
  form.a = OperandTile(a, shape, true);
  form.b = OperandTile(b, shape, false);
  form.c = AccumulatorTile(types[3], shape);
  form.d = AccumulatorTile(types[0], shape);
  form.shape.m = shape.m;
  form.shape.n = shape.n;
  form.shape.k = form.a.length;
  form.shape.a_type = a.type;
  form.shape.b_type = b.type;
  form.shape.d_type = types[0] == "f16" ? AccumulatorType::kF16
                      : wanted == "s32" ? AccumulatorType::kS32
                                        : AccumulatorType::kF32;
  const int sm = d.function().context().device.sm;
  form.shape.options = AccumulationOf(sm >= 90 ? TensorCore::kHopper : TensorCore::kAmpere, a.type);
  const Type operand = form.doubles ? Type::kF64 : Type::kB32;
  PushTile(d, 0, form.d, RegisterTypeOf(types[0]), true);
  PushTile(d, 1, form.a, operand, false);
  PushTile(d, 2, form.b, operand, false);
  PushTile(d, 3, form.c, RegisterTypeOf(types[3]), false);
  d.use.accumulators.assign(d.slots.end() - form.c.given, d.slots.end());
  d.op.handler = MultiplyTiles;
}

}  // namespace

void RegisterWmma() {
  FamilyRegistry::Add("wmma.load", DecodeWmmaLoad);
  FamilyRegistry::Add("wmma.store", DecodeWmmaStore);
  FamilyRegistry::Add("wmma.mma", DecodeWmmaMultiply);
}

}  // namespace tilelang::emulator
