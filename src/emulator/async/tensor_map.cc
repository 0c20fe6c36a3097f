#include "emulator/async/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "emulator/core/error.h"

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
    {"f16", 16, true, 0x7FFF},
    {"f32", 32, true, 0x7FFFFFFF},
    {"f32_ftz", 32, true, 0x7FFFFFFF},
    {"f64", 64, true, 0x7FFFFFFFFFFFFFFF},
    {"bf16", 16, true, 0x7FFF},
    {"u4", 4, false, 0},
    {"u4_unpack_u8", 4, false, 0},
    {"u6_unpack_u8", 6, false, 0},
    {"tf32", 32, true, 0x7FFFFFFF},
    {"tf32_ftz", 32, true, 0x7FFFFFFF},
}};

const TypeInfo& InfoOf(TensorType type) { return kTypes[static_cast<int>(type)]; }

bool IsUnpacked(TensorType type) {
  return type == TensorType::kU4UnpackU8 || type == TensorType::kU6UnpackU8;
}

[[noreturn]] void Illegal(const std::string& message) {
  throw EmulatorError("tensor-map", message);
}

void CheckBetween(const char* field, int index, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return;
  Illegal(std::string(field) + "[" + std::to_string(index) + "] = " + std::to_string(value) +
          " is not in " + std::to_string(low) + ".." + std::to_string(high));
}

// Bytes that `count` elements take in global memory; `count` starts at a byte boundary.
uint64_t GlobalBytes(const TensorMap& map, uint64_t count) {
  return (count * map.ElementBits() + 7) / 8;
}

// The part of [start, start + elements) that lies in [0, dim).
void ClipRow(const TensorMap& map, int64_t start, uint32_t elements, uint64_t line_address,
             bool inside, TensorRow* row) {
  const int64_t dim = static_cast<int64_t>(map.dims[0]);
  const int64_t begin = std::clamp<int64_t>(start, 0, dim);
  const int64_t end = std::clamp<int64_t>(start + elements, 0, dim);
  if (!inside || begin >= end) return;
  row->first = static_cast<uint32_t>(begin - start);
  row->count = static_cast<uint32_t>(end - begin);
  row->address = line_address + begin * map.ElementBits() / 8;
}

bool Inside(int64_t position, uint64_t dim) {
  return position >= 0 && static_cast<uint64_t>(position) < dim;
}

uint32_t BoxCount(const TensorMap& map, int d) {
  // The stride of dimension 0 takes effect with an interleave only.
  const uint32_t step = d == 0 ? 1 : map.element_strides[d];
  return (map.box[d] + step - 1) / step;
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

// Calls body(offset, size) for the pieces that a swizzle keeps together.
template <typename Body>
void ForEachPiece(Swizzle swizzle, uint32_t bytes, Body body) {
  if (swizzle == Swizzle::k128BAtom32BFlip8B) {
    for (uint32_t at = 0; at < bytes; at += 8) body(at, std::integral_constant<size_t, 8>());
  } else {
    for (uint32_t at = 0; at < bytes; at += 16) body(at, std::integral_constant<size_t, 16>());
  }
}

// "im2col" in the first unused word marks our encoding of that form.
constexpr uint64_t kIm2colMark = 0x6C6F63326D69;

void EncodeIm2col(const TensorMap& map, uint64_t* words) {
  words[8] = kIm2colMark;
  words[9] = map.pixels;
  for (int i = 0; i < 3; ++i) {
    words[10 + i] = static_cast<uint32_t>(map.lower[i]) |
                    static_cast<uint64_t>(static_cast<uint32_t>(map.upper[i])) << 32;
  }
}

void DecodeIm2col(const uint8_t* bytes, TensorMap* map) {
  map->im2col = Word(bytes, 8) == kIm2colMark;
  if (!map->im2col) return;
  map->pixels = static_cast<uint32_t>(Word(bytes, 9));
  for (int i = 0; i < 3; ++i) {
    map->lower[i] = static_cast<int32_t>(Word(bytes, 10 + i));
    map->upper[i] = static_cast<int32_t>(Word(bytes, 10 + i) >> 32);
  }
}

}  // namespace

const char* TensorTypeName(TensorType type) { return InfoOf(type).name; }
bool IsFloatTensor(TensorType type) { return InfoOf(type).is_float; }

int TensorMap::ElementBits() const { return InfoOf(type).bits; }

uint32_t TensorMap::SharedBytes(uint32_t count) const {
  if (IsUnpacked(type)) return count;
  return static_cast<uint32_t>(GlobalBytes(*this, count));
}

uint32_t TensorMap::BoxBytes() const {
  if (im2col) return SharedBytes(box[0]) * pixels;
  uint32_t rows = 1;
  for (int d = 1; d < rank; ++d) rows *= BoxCount(*this, d);
  return SharedBytes(box[0]) * rows;
}

void TensorMap::Validate() const {
  if (rank < 1 || rank > kMaxRank) Illegal("rank " + std::to_string(rank) + " is not in 1..5");
  if (interleave != 0) {
    throw EmulatorError("unsupported", "tensor maps with an interleaved layout");
  }
  const uint64_t align = IsUnpacked(type) ? 32 : 16;
  if (address % align != 0) {
    Illegal("the global address must be a multiple of " + std::to_string(align));
  }
  for (int d = 0; d < rank; ++d) {
    CheckBetween("globalDim", d, dims[d], 1, uint64_t{1} << 32);
    CheckBetween("elementStrides", d, element_strides[d], 1, 8);
    if (!im2col || d == 0) CheckBetween("boxDim", d, box[d], 1, 256);
    if (d == 0) continue;
    CheckBetween("globalStrides", d - 1, strides[d], 0, (uint64_t{1} << 40) - 1);
    if (strides[d] % align != 0) {
      Illegal("globalStrides[" + std::to_string(d - 1) + "] = " + std::to_string(strides[d]) +
              " bytes is no multiple of " + std::to_string(align));
    }
  }
  const uint32_t inner = SharedBytes(box[0]);
  if (inner % 16 != 0) {
    Illegal("boxDim[0] takes " + std::to_string(inner) + " bytes; it must be a multiple of 16");
  }
  if (IsUnpacked(type) && box[0] != 128) Illegal("boxDim[0] of a padded type must be 128");
  if (swizzle != Swizzle::kNone && inner > static_cast<uint32_t>(SwizzleWidth(swizzle))) {
    Illegal("boxDim[0] takes " + std::to_string(inner) + " bytes, more than the swizzle's " +
            std::to_string(SwizzleWidth(swizzle)));
  }
  if (fill_nan && !IsFloatTensor(type)) {
    Illegal(std::string("NaN fill needs a float type, not ") + TensorTypeName(type));
  }
  if (im2col && (rank < 3 || pixels < 1 || pixels > 1024)) {
    Illegal("im2col needs rank 3..5 and 1..1024 pixels per column");
  }
}

void TensorMap::Encode(uint8_t* bytes) const {
  std::array<uint64_t, kBytes / 8> words{};
  words[0] = address;
  const SwizzleCode& code = kSwizzleCodes[static_cast<int>(swizzle)];
  words[1] = 2 | static_cast<uint64_t>(rank - 1) << 4 | static_cast<uint64_t>(type) << 7 |
             static_cast<uint64_t>(interleave) << 11 | code.mode << 13 |
             static_cast<uint64_t>(fill_nan) << 16 | code.atom << 19;
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
    } else {
      words[7] |= extent << (8 * (d - 1));
    }
  }
  if (im2col) EncodeIm2col(*this, words.data());
  std::memcpy(bytes, words.data(), kBytes);
}

TensorMap TensorMap::Decode(const uint8_t* bytes) {
  TensorMap map;
  map.address = Word(bytes, 0);
  const uint64_t head = Word(bytes, 1);
  map.rank = static_cast<int>(Bits(head, 4, 3)) + 1;
  map.type = static_cast<TensorType>(Bits(head, 7, 4));
  map.interleave = static_cast<int>(Bits(head, 11, 2));
  map.fill_nan = Bits(head, 16, 1);
  const uint64_t mode = Bits(head, 13, 3);
  const uint64_t atom = mode == 3 ? Bits(head, 19, 2) : 0;
  const auto code = std::find_if(kSwizzleCodes.begin(), kSwizzleCodes.end(),
                                 [&](const auto& c) { return c.mode == mode && c.atom == atom; });
  if (code == kSwizzleCodes.end()) {
    Illegal("swizzle mode " + std::to_string(mode) + " of the tensor map is unknown");
  }
  map.swizzle = code->swizzle;
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
  DecodeIm2col(bytes, &map);
  map.Validate();
  return map;
}

TensorWalk WalkTile(const TensorMap& map, std::span<const int32_t> coordinates) {
  TensorWalk walk{map.box[0], {}};
  const uint32_t row_bytes = map.SharedBytes(map.box[0]);
  std::array<uint32_t, TensorMap::kMaxRank> index{};
  uint32_t offset = 0;
  while (true) {
    TensorRow row{offset, 0, 0, 0};
    uint64_t line = map.address;
    bool inside = true;
    for (int d = 1; d < map.rank; ++d) {
      const int64_t position = int64_t{coordinates[d]} + int64_t{index[d]} * map.element_strides[d];
      inside = inside && Inside(position, map.dims[d]);
      line += static_cast<uint64_t>(position) * map.strides[d];
    }
    ClipRow(map, coordinates[0], walk.row_elements, line, inside, &row);
    walk.rows.push_back(row);
    offset += row_bytes;
    int d = 1;
    while (d < map.rank && ++index[d] == BoxCount(map, d)) index[d++] = 0;
    if (d >= map.rank) return walk;
  }
}

TensorWalk WalkGather(const TensorMap& map, std::span<const int32_t> coordinates) {
  if (map.rank != 2 || map.box[1] != 1) {
    Illegal("gather4 and scatter4 need a map of rank 2 with boxDim[1] = 1");
  }
  TensorWalk walk{map.box[0], {}};
  const uint32_t row_bytes = map.SharedBytes(map.box[0]);
  for (uint32_t r = 0; r < 4; ++r) {
    TensorRow row{r * row_bytes, 0, 0, 0};
    const int64_t position = coordinates[1 + r];
    ClipRow(map, coordinates[0], walk.row_elements,
            map.address + static_cast<uint64_t>(position) * map.strides[1],
            Inside(position, map.dims[1]), &row);
    walk.rows.push_back(row);
  }
  return walk;
}

TensorWalk WalkIm2col(const TensorMap& map, std::span<const int32_t> coordinates,
                      std::span<const uint16_t> offsets) {
  const int spatial = map.rank - 2;
  TensorWalk walk{map.box[0], {}};
  const uint32_t row_bytes = map.SharedBytes(map.box[0]);
  std::array<int64_t, TensorMap::kMaxRank> pixel{};
  for (int d = 1; d < map.rank; ++d) pixel[d] = coordinates[d];
  for (uint32_t p = 0; p < map.pixels; ++p) {
    TensorRow row{p * row_bytes, 0, 0, 0};
    uint64_t line = map.address;
    bool inside = true;
    for (int d = 1; d < map.rank; ++d) {
      const bool shifted = d <= spatial && !offsets.empty();
      const int64_t position = pixel[d] + (shifted ? offsets[d - 1] : 0);
      inside = inside && Inside(position, map.dims[d]);
      line += static_cast<uint64_t>(position) * map.strides[d];
    }
    ClipRow(map, coordinates[0], walk.row_elements, line, inside, &row);
    walk.rows.push_back(row);
    int d = 1;
    for (; d <= spatial; ++d) {
      pixel[d] += map.element_strides[d];
      if (pixel[d] <= static_cast<int64_t>(map.dims[d]) - 1 + map.upper[d - 1]) break;
      pixel[d] = map.lower[d - 1];
    }
    if (d > spatial) ++pixel[map.rank - 1];
  }
  return walk;
}

void ScatterRow(const TensorMap& map, const uint8_t* row, uint32_t bytes, uint32_t base,
                uint32_t offset, uint8_t* shared) {
  ForEachPiece(map.swizzle, bytes, [&](uint32_t at, auto piece) {
    std::memcpy(shared + SwizzleAddress(map.swizzle, base + offset + at), row + at, piece);
  });
}

void GatherRow(const TensorMap& map, uint8_t* row, uint32_t bytes, uint32_t base, uint32_t offset,
               const uint8_t* shared) {
  ForEachPiece(map.swizzle, bytes, [&](uint32_t at, auto piece) {
    std::memcpy(row + at, shared + SwizzleAddress(map.swizzle, base + offset + at), piece);
  });
}

void FillRow(const TensorMap& map, const TensorRow& row, uint32_t elements, const uint8_t* global,
             uint8_t* out) {
  const uint32_t bytes = map.SharedBytes(elements);
  std::memset(out, 0, bytes);
  if (IsUnpacked(map.type)) {
    const uint32_t data = map.type == TensorType::kU4UnpackU8 ? 8 : 12;
    for (uint32_t unit = 0; unit < row.count / 16; ++unit) {
      std::memcpy(out + row.first + unit * 16, global + unit * data, data);
    }
    return;
  }
  const uint32_t element_bytes = std::max(map.ElementBits() / 8, 1);
  if (map.fill_nan) {
    const uint64_t nan = InfoOf(map.type).nan;
    for (uint32_t at = 0; at < bytes; at += element_bytes) {
      std::memcpy(out + at, &nan, element_bytes);
    }
  }
  if (row.count != 0) {
    std::memcpy(out + row.first * map.ElementBits() / 8, global, GlobalBytes(map, row.count));
  }
}

}  // namespace tilelang::emulator
