#include "emulator/async/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "emulator/base/error.h"

namespace tilelang::emulator {
namespace {

struct TypeInfo {
  const char* name;
  int bits;  // in global memory
  bool is_float;
  uint64_t nan;  // what out-of-bounds elements hold with NaN fill
};

constexpr std::array<TypeInfo, 16> kTypes = {{
    {"u8", 8, false, 0},
    {"u16", 16, false, 0},
    {"u32", 32, false, 0},
    {"s32", 32, false, 0},
    {"u64", 64, false, 0},
    {"s64", 64, false, 0},
    {"f16", 16, true, 0x7FF7},
    {"f32", 32, true, 0x7FF77FF7},
    {"f32_ftz", 32, true, 0x7FF77FF7},
    {"f64", 64, true, 0x7FF77FF77FF77FF7},
    {"bf16", 16, true, 0x7FF7},
    {"u4", 4, false, 0},
    {"u4_unpack_u8", 4, false, 0},
    {"u6_unpack_u8", 6, false, 0},
    {"tf32", 32, true, 0x7FF77FF7},
    {"tf32_ftz", 32, true, 0x7FF77FF7},
}};

const TypeInfo& InfoOf(TensorType type) { return kTypes[static_cast<int>(type)]; }

[[noreturn]] void Illegal(const std::string& message) {
  throw EmulatorError("tensor-map", message);
}

void CheckBetween(const char* field, int index, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return;
  Illegal(std::string(field) + "[" + std::to_string(index) + "] = " + std::to_string(value) +
          " is not in " + std::to_string(low) + ".." + std::to_string(high));
}

// Rules of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
void CheckGeometry(const TensorMap& map) {
  const uint64_t align = map.Padded() || map.interleave == Interleave::k32B ? 32 : 16;
  if (map.address % align != 0) {
    Illegal("the global address must be a multiple of " + std::to_string(align));
  }
  for (int d = 0; d < map.rank; ++d) {
    CheckBetween("globalDim", d, map.dims[d], 1, uint64_t{1} << 32);
    CheckBetween("elementStrides", d, map.element_strides[d], 1, 8);
    if (!map.im2col || d == 0) CheckBetween("boxDim", d, map.box[d], 1, 256);
    if (d == 0) continue;
    CheckBetween("globalStrides", d - 1, map.strides[d], 0, (uint64_t{1} << 40) - 1);
    if (map.strides[d] % align != 0) {
      Illegal("globalStrides[" + std::to_string(d - 1) + "] = " + std::to_string(map.strides[d]) +
              " bytes is no multiple of " + std::to_string(align));
    }
  }
}

void CheckInterleave(const TensorMap& map) {
  if (map.rank < 3) {
    Illegal("an interleaved map has 3 to 5 dimensions, not " + std::to_string(map.rank));
  }
  if (map.interleave == Interleave::k32B && map.swizzle != Swizzle::k32B) {
    Illegal("an interleave of 32 bytes needs the swizzle of 32 bytes");
  }
  if (map.Padded()) {
    Illegal(std::string("elements of type ") + TensorTypeName(map.type) + " cannot be interleaved");
  }
}

void CheckInnerBox(const TensorMap& map) {
  const uint32_t inner = map.SharedBytes(map.box[0]);
  if (inner % 16 != 0) {
    Illegal("boxDim[0] takes " + std::to_string(inner) + " bytes; it must be a multiple of 16");
  }
  if (map.Padded() && map.box[0] != 128) Illegal("boxDim[0] of a padded type must be 128");
  if (map.Interleaved()) return;
  if (map.swizzle != Swizzle::kNone && inner > static_cast<uint32_t>(SwizzleWidth(map.swizzle))) {
    Illegal("boxDim[0] takes " + std::to_string(inner) + " bytes, more than the swizzle's " +
            std::to_string(SwizzleWidth(map.swizzle)));
  }
}

// The spatial dimensions share 16 bits for each corner of the bounding box.
int CornerBits(int rank) { return rank == 3 ? 16 : rank == 4 ? 8 : 5; }

void CheckIm2col(const TensorMap& map) {
  if (map.rank < 3 || map.pixels < 1 || map.pixels > 1024) {
    Illegal("im2col needs rank 3..5 and 1..1024 pixels per column");
  }
  const int limit = 1 << (CornerBits(map.rank) - 1);
  for (int i = 0; i < map.rank - 2; ++i) {
    for (const int32_t corner : {map.lower[i], map.upper[i]}) {
      if (corner >= -limit && corner < limit) continue;
      Illegal("a corner of the bounding box at " + std::to_string(corner) + " is not in " +
              std::to_string(-limit) + ".." + std::to_string(limit - 1));
    }
  }
}

uint64_t Word(const uint8_t* bytes, int index) {
  uint64_t word;
  std::memcpy(&word, bytes + index * 8, 8);
  return word;
}

uint64_t Bits(uint64_t word, int low, int width) {
  return (word >> low) & ((uint64_t{1} << width) - 1);
}

struct SwizzleCode {
  Swizzle swizzle;
  uint64_t mode;
  uint64_t atom;
};

constexpr std::array<SwizzleCode, 7> kSwizzleCodes = {{
    {Swizzle::kNone, 0, 0},
    {Swizzle::k32B, 1, 0},
    {Swizzle::k64B, 2, 0},
    {Swizzle::k128B, 3, 0},
    {Swizzle::k128BAtom32B, 3, 1},
    {Swizzle::k128BAtom32BFlip8B, 3, 2},
    {Swizzle::k128BAtom64B, 3, 3},
}};

// Word 7 of an im2col map: the corners, then its pixels less one.
uint64_t EncodeIm2col(const TensorMap& map) {
  const int bits = CornerBits(map.rank);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t word = static_cast<uint64_t>(map.pixels - 1) << 32;
  for (int i = 0; i < map.rank - 2; ++i) {
    word |= (static_cast<uint64_t>(map.lower[i]) & mask) << (bits * i);
    word |= (static_cast<uint64_t>(map.upper[i]) & mask) << (16 + bits * i);
  }
  return word;
}

int32_t SignedBits(uint64_t word, int low, int width) {
  return static_cast<int32_t>(static_cast<int64_t>(word << (64 - low - width)) >> (64 - width));
}

void DecodeIm2col(uint64_t word, TensorMap* map) {
  const int bits = CornerBits(map->rank);
  map->pixels = static_cast<uint32_t>(Bits(word, 32, 10)) + 1;
  for (int i = 0; i < std::min(map->rank - 2, 3); ++i) {
    map->lower[i] = SignedBits(word, bits * i, bits);
    map->upper[i] = SignedBits(word, 16 + bits * i, bits);
  }
  map->box.fill(1);
}

// A tf32 element is an f32 element that loads round.
struct ElementCode {
  uint64_t code;
  bool rounds;
};

ElementCode CodeOf(TensorType type) {
  if (type == TensorType::kTf32) return {static_cast<uint64_t>(TensorType::kF32), true};
  if (type == TensorType::kTf32Ftz) return {static_cast<uint64_t>(TensorType::kF32Ftz), true};
  return {static_cast<uint64_t>(type), false};
}

TensorType TypeOf(const ElementCode& element) {
  const auto type = static_cast<TensorType>(element.code);
  if (!element.rounds) return type;
  if (type == TensorType::kF32) return TensorType::kTf32;
  if (type == TensorType::kF32Ftz) return TensorType::kTf32Ftz;
  Illegal(std::string("elements of type ") + TensorTypeName(type) + " cannot be rounded to tf32");
}

}  // namespace

const char* TensorTypeName(TensorType type) { return InfoOf(type).name; }
bool IsFloatTensor(TensorType type) { return InfoOf(type).is_float; }

int TensorMap::ElementBits() const { return InfoOf(type).bits; }

uint32_t TensorMap::GlobalBytes(uint32_t count) const {
  return static_cast<uint32_t>((uint64_t{count} * ElementBits() + 7) / 8);
}

uint32_t TensorMap::SharedBytes(uint32_t count) const {
  return Padded() ? count : GlobalBytes(count);
}

uint64_t TensorMap::NanPattern() const { return InfoOf(type).nan; }

void TensorMap::Validate() const {
  if (rank < 1 || rank > kMaxRank) Illegal("rank " + std::to_string(rank) + " is not in 1..5");
  if (swizzle == Swizzle::k128BAtom64B) {
    throw EmulatorError("unsupported",
                        "tensor maps that swizzle chunks of 64 bytes, since no published source "
                        "says which rows exchange them");
  }
  if (interleave > Interleave::k32B) Illegal("this interleave does not exist");
  CheckGeometry(*this);
  if (Interleaved()) CheckInterleave(*this);
  CheckInnerBox(*this);
  if (fill_nan && !IsFloatTensor(type)) {
    Illegal(std::string("NaN fill needs a float type, not ") + TensorTypeName(type));
  }
  if (im2col) CheckIm2col(*this);
}

void TensorMap::Encode(uint8_t* bytes) const {
  std::array<uint64_t, kBytes / 8> words{};
  words[0] = address;
  const SwizzleCode& code = kSwizzleCodes[static_cast<int>(swizzle)];
  const ElementCode element = CodeOf(type);
  words[1] = static_cast<uint64_t>(im2col) | static_cast<uint64_t>(rank - 1) << 4 |
             element.code << 7 | static_cast<uint64_t>(interleave) << 11 | code.mode << 13 |
             static_cast<uint64_t>(fill_nan) << 15 | static_cast<uint64_t>(element.rounds) << 16 |
             code.atom << 19;
  for (int d = 1; d < kMaxRank; ++d) {
    const uint64_t units = strides[d] / 16;
    const int at = d;  // in halves of words from the upper half of word 1 on
    words[1 + at / 2] |= (units & 0xFFFFFFFF) << (at % 2 == 1 ? 32 : 0);
    words[3] |= (units >> 32 & 0xF) << (32 + 4 * (d - 1));
  }
  for (int d = 0; d < kMaxRank; ++d) {
    words[4 + d / 2] |= ((dims[d] - 1) & 0xFFFFFFFF) << (d % 2 * 32);
    words[6] |= static_cast<uint64_t>(element_strides[d] - 1) << (32 + 3 * d);
    const uint64_t extent = box[d] - 1;
    if (d == 0) {
      words[6] |= extent << 56;
    } else if (!im2col) {
      words[7] |= extent << (8 * (d - 1));
    }
  }
  if (im2col) words[7] = EncodeIm2col(*this);
  std::memcpy(bytes, words.data(), kBytes);
}

TensorMap TensorMap::Decode(const uint8_t* bytes) {
  TensorMap map;
  map.address = Word(bytes, 0);
  const uint64_t head = Word(bytes, 1);
  map.rank = static_cast<int>(Bits(head, 4, 3)) + 1;
  map.type = TypeOf({Bits(head, 7, 4), Bits(head, 16, 1) != 0});
  map.interleave = static_cast<Interleave>(Bits(head, 11, 2));
  map.fill_nan = Bits(head, 15, 1);
  map.im2col = Bits(head, 0, 1);
  const uint64_t mode = Bits(head, 13, 2);
  const uint64_t atom = mode == 3 ? Bits(head, 19, 2) : 0;
  map.swizzle =
      std::find_if(kSwizzleCodes.begin(), kSwizzleCodes.end(), [&](const SwizzleCode& code) {
        return code.mode == mode && code.atom == atom;
      })->swizzle;
  for (int d = 1; d < kMaxRank; ++d) {
    const uint64_t low = Bits(Word(bytes, 1 + d / 2), d % 2 == 1 ? 32 : 0, 32);
    map.strides[d] = (low | Bits(Word(bytes, 3), 32 + 4 * (d - 1), 4) << 32) * 16;
  }
  for (int d = 0; d < kMaxRank; ++d) {
    map.dims[d] = Bits(Word(bytes, 4 + d / 2), d % 2 * 32, 32) + 1;
    map.element_strides[d] = static_cast<uint32_t>(Bits(Word(bytes, 6), 32 + 3 * d, 3)) + 1;
    const uint64_t extent =
        d == 0 ? Bits(Word(bytes, 6), 56, 8) : Bits(Word(bytes, 7), 8 * (d - 1), 8);
    map.box[d] = static_cast<uint32_t>(extent) + 1;
  }
  if (map.im2col) {
    const uint32_t channels = map.box[0];
    DecodeIm2col(Word(bytes, 7), &map);
    map.box[0] = channels;
  }
  map.Validate();
  return map;
}

}  // namespace tilelang::emulator
