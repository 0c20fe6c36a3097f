#include "emulator/async/tensor_walk.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/base/error.h"
#include "emulator/core/algebra.h"

namespace tilelang::emulator {
namespace {

// The positions of one dimension that a walk visits: start, start + step, ...
struct Axis {
  int64_t start = 0;
  uint32_t count = 1;
  uint32_t step = 1;
  uint64_t extent = 1;  // positions that exist: [0, extent)
  uint64_t stride = 0;  // bytes from one position to the next

  int64_t At(uint32_t index) const { return start + int64_t{index} * step; }
  bool Contains(int64_t position) const {
    return position >= 0 && static_cast<uint64_t>(position) < extent;
  }
};

uint32_t CeilDiv(uint32_t value, uint32_t divisor) { return (value + divisor - 1) / divisor; }

// Dimension d of a map.
Axis AxisOf(const TensorMap& map, int d, int32_t coordinate, uint32_t box) {
  const uint64_t stride = d == 0 ? map.SliceBytes() : map.strides[d];
  const uint32_t step = map.element_strides[d];
  const bool one_slice = map.Interleaved() && d == map.ChannelDim();
  return {coordinate, one_slice ? 1 : CeilDiv(box, step), step, map.dims[d], stride};
}

// A run of elements of a row: elements of dimension 0 from `start` on, or a whole slice.
struct Run {
  int64_t start;
  uint32_t elements;
  uint64_t extent;
};

Run RunOf(const TensorMap& map, int32_t innermost) {
  if (map.Interleaved()) return {0, map.SliceElements(), map.SliceElements()};
  return {innermost, map.box[0], map.dims[0]};
}

// Appends the row of `run` in the line of elements at `line`, which exists if `inside`.
void AppendRow(const TensorMap& map, const Run& run, uint64_t line, bool inside, TensorWalk* walk) {
  const uint32_t index = static_cast<uint32_t>(walk->rows.size());
  TensorRow row{index * map.SharedBytes(run.elements), 0, 0, 0};
  const int64_t extent = static_cast<int64_t>(run.extent);
  const int64_t begin = std::clamp<int64_t>(run.start, 0, extent);
  const int64_t end = std::clamp<int64_t>(run.start + run.elements, 0, extent);
  if (inside && begin < end) {
    row.first = static_cast<uint32_t>(begin - run.start);
    row.count = static_cast<uint32_t>(end - begin);
    row.address = line + begin * map.ElementBits() / 8;
  }
  walk->rows.push_back(row);
}

// Bytes of a row, and from one row to the next in shared memory: a row narrower than the swizzle
// still begins a line of it.
struct RowShape {
  uint32_t bytes;
  uint32_t pitch;
};

RowShape ShapeOf(const TensorMap& map) {
  if (map.Interleaved()) return {map.SliceBytes(), map.SliceBytes()};
  const uint32_t bytes = map.SharedBytes(map.box[0]);
  const uint32_t line = static_cast<uint32_t>(SwizzleWidth(map.swizzle));
  return {bytes, map.swizzle == Swizzle::kNone ? bytes : std::max(bytes, line)};
}

// Calls body(offset in the dense block, shared address, size) for the pieces of `bytes` bytes of
// rows that the swizzle keeps together.
template <typename Body>
void ForEachPiece(const TensorMap& map, uint32_t bytes, uint32_t base, Body body) {
  const RowShape shape = ShapeOf(map);
  const uint32_t piece = map.swizzle == Swizzle::k128BAtom32BFlip8B ? 8 : 16;
  for (uint32_t at = 0; at < bytes; at += piece) {
    const uint32_t place = at / shape.bytes * shape.pitch + at % shape.bytes;
    body(at, SwizzleAddress(map.swizzle, base + place), piece);
  }
}

// Loads of tf32 elements round to nearest even.
void RoundToTf32(uint8_t* element) {
  constexpr uint32_t kInfinity = 0x7F800000, kNan = 0x7FFFE000, kDropped = 0x1FFF;
  uint32_t bits;
  std::memcpy(&bits, element, sizeof bits);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > kInfinity) {
    bits = kNan;
  } else if (magnitude < kInfinity) {
    const uint32_t odd = bits / (kDropped + 1) % 2;
    bits = (bits + kDropped / 2 + odd) & ~kDropped;
  }
  std::memcpy(element, &bits, sizeof bits);
}

// The pixels of an im2col map in the order in which a column takes them.
class PixelWalk {
 public:
  PixelWalk(const TensorMap& map, std::span<const int32_t> coordinates,
            std::span<const uint16_t> offsets)
      : map_(map), first_(map.Interleaved() ? 0 : 1), batch_(map.rank - 1) {
    for (int i = 0; i < Spatial(); ++i) {
      position_[i] = coordinates[first_ + i];
      if (!offsets.empty()) offset_[i] = offsets[i];
    }
    image_ = coordinates[batch_];
  }

  // Address of the pixel's line of channels, and whether the pixel exists.
  uint64_t Line(bool* inside) const {
    const Axis batch = AxisOf(map_, batch_, 0, 1);
    *inside = batch.Contains(image_);
    uint64_t line = map_.address + static_cast<uint64_t>(image_) * batch.stride;
    for (int i = 0; i < Spatial(); ++i) {
      const Axis axis = AxisOf(map_, first_ + i, 0, 1);
      const int64_t position = position_[i] + offset_[i];
      *inside = *inside && axis.Contains(position);
      line += static_cast<uint64_t>(position) * axis.stride;
    }
    return line;
  }

  // Steps along the bounding box [lower, extent - 1 + upper], then to another image.
  void Advance() {
    for (int i = 0; i < Spatial(); ++i) {
      const int d = first_ + i;
      position_[i] += map_.element_strides[d];
      if (position_[i] <= static_cast<int64_t>(map_.dims[d]) - 1 + map_.upper[i]) return;
      position_[i] = map_.lower[i];
    }
    image_ += map_.element_strides[batch_];
  }

 private:
  int Spatial() const { return map_.rank - 2; }

  const TensorMap& map_;
  int first_;  // spatial dimension
  int batch_;
  std::array<int64_t, 3> position_{};
  std::array<uint16_t, 3> offset_{};
  int64_t image_;
};

}  // namespace

TensorWalk WalkTile(const TensorMap& map, std::span<const int32_t> coordinates) {
  const Run run = RunOf(map, coordinates[0]);
  TensorWalk walk{run.elements, {}};
  std::array<Axis, TensorMap::kMaxRank> axes;
  const int first = map.Interleaved() ? 0 : 1;
  for (int d = first; d < map.rank; ++d) axes[d] = AxisOf(map, d, coordinates[d], map.box[d]);
  std::array<uint32_t, TensorMap::kMaxRank> index{};
  while (true) {
    uint64_t line = map.address;
    bool inside = true;
    for (int d = first; d < map.rank; ++d) {
      const int64_t position = axes[d].At(index[d]);
      inside = inside && axes[d].Contains(position);
      line += static_cast<uint64_t>(position) * axes[d].stride;
    }
    AppendRow(map, run, line, inside, &walk);
    int d = first;
    while (d < map.rank && ++index[d] == axes[d].count) index[d++] = 0;
    if (d >= map.rank) return walk;
  }
}

TensorWalk WalkGather(const TensorMap& map, std::span<const int32_t> coordinates) {
  if (map.rank != 2 || map.box[1] != 1) {
    throw EmulatorError("tensor-map",
                        "gather4 and scatter4 need a map of rank 2 with boxDim[1] = 1");
  }
  const Run run = RunOf(map, coordinates[0]);
  TensorWalk walk{run.elements, {}};
  for (int r = 0; r < 4; ++r) {
    const Axis rows = AxisOf(map, 1, coordinates[1 + r], 1);
    AppendRow(map, run, map.address + static_cast<uint64_t>(rows.start) * rows.stride,
              rows.Contains(rows.start), &walk);
  }
  return walk;
}

TensorWalk WalkIm2col(const TensorMap& map, std::span<const int32_t> coordinates,
                      std::span<const uint16_t> offsets) {
  const Run run = RunOf(map, coordinates[0]);
  TensorWalk walk{run.elements, {}};
  // Without an interleave all channels of a pixel are one row, and the line begins at channel 0.
  Axis slice;
  if (map.Interleaved()) slice = AxisOf(map, map.ChannelDim(), coordinates[map.ChannelDim()], 1);
  const uint64_t offset = static_cast<uint64_t>(slice.start) * slice.stride;
  PixelWalk walker(map, coordinates, offsets);
  for (uint32_t p = 0; p < map.pixels; ++p, walker.Advance()) {
    bool inside = false;
    const uint64_t line = walker.Line(&inside);
    AppendRow(map, run, line + offset, inside && slice.Contains(slice.start), &walk);
  }
  return walk;
}

TensorWalk WalkIm2colWide(const TensorMap& map, std::span<const int32_t> coordinates, int halo,
                          int shift) {
  const Swizzle swizzle = map.swizzle;
  if (map.Interleaved() || swizzle == Swizzle::kNone || swizzle == Swizzle::k128BAtom32BFlip8B) {
    throw EmulatorError("tensor-map",
                        "im2col::w needs a swizzle, without flipped halves, and no interleave");
  }
  const Run run = RunOf(map, coordinates[0]);
  TensorWalk walk{run.elements, {}};
  std::array<Axis, TensorMap::kMaxRank> axes;
  for (int d = 1; d < map.rank; ++d) axes[d] = AxisOf(map, d, coordinates[d], 1);
  Axis& along = axes[1];
  Axis& image = axes[map.rank - 1];
  const int64_t lower = int64_t{map.lower[0]} + shift;
  const int64_t upper = static_cast<int64_t>(along.extent) - 1 + map.upper[0] + shift;
  along.start += shift;
  if (along.start > upper) {
    throw EmulatorError("tensor-map", "im2col::w begins on the right of its bounding box");
  }
  bool same_line = true;
  for (uint32_t p = 0; p < map.pixels + static_cast<uint32_t>(halo); ++p) {
    if (along.start > upper && p < map.pixels) {
      along.start = lower;
      image.start += image.step;
      same_line = false;
    }
    uint64_t line = map.address;
    bool inside = true;
    for (int d = 1; d < map.rank; ++d) {
      inside = inside && axes[d].Contains(axes[d].start);
      line += static_cast<uint64_t>(axes[d].start) * axes[d].stride;
    }
    AppendRow(map, run, line, inside, &walk);
    along.start += along.step;
  }
  if (halo > 0 && !same_line) {
    throw EmulatorError("unsupported",
                        "im2col::w with a halo and pixels of several lines: no source tells where "
                        "the halos of the first ones lie");
  }
  return walk;
}

void ScatterRows(const TensorMap& map, const uint8_t* rows, uint32_t bytes, uint32_t base,
                 uint8_t* shared) {
  ForEachPiece(map, bytes, base, [&](uint32_t at, uint32_t address, uint32_t size) {
    CopyBytes(shared + address, rows + at, size);
  });
}

void GatherRows(const TensorMap& map, uint8_t* rows, uint32_t bytes, uint32_t base,
                const uint8_t* shared) {
  ForEachPiece(map, bytes, base, [&](uint32_t at, uint32_t address, uint32_t size) {
    CopyBytes(rows + at, shared + address, size);
  });
}

std::vector<uint32_t> SparseUnits(const TensorMap& map, uint32_t bytes, uint32_t base) {
  std::vector<uint32_t> units;
  const RowShape shape = ShapeOf(map);
  if (shape.bytes == shape.pitch) return units;
  ForEachPiece(map, bytes, base, [&](uint32_t, uint32_t address, uint32_t) {
    if (address % 16 == 0) units.push_back(address);
  });
  return units;
}

void FillRow(const TensorMap& map, const TensorRow& row, uint32_t elements, const uint8_t* global,
             uint8_t* out) {
  const uint32_t bytes = map.SharedBytes(elements);
  ZeroBytes(out, bytes);
  if (map.Padded()) {
    const uint32_t data = map.GlobalBytes(16);
    for (uint32_t unit = 0; unit < row.count / 16; ++unit) {
      CopyBytes(out + row.first + unit * 16, global + unit * data, data);
    }
    return;
  }
  if (map.fill_nan) {
    const uint64_t nan = map.NanPattern();
    const uint32_t size = map.GlobalBytes(1);
    for (uint32_t at = 0; at < bytes; at += size) std::memcpy(out + at, &nan, size);
  }
  if (row.count == 0) return;
  uint8_t* data = out + map.GlobalBytes(row.first);
  CopyBytes(data, global, map.GlobalBytes(row.count));
  if (map.type == TensorType::kTf32 || map.type == TensorType::kTf32Ftz) {
    for (uint32_t i = 0; i < row.count; ++i) RoundToTf32(data + 4 * i);
  }
}

}  // namespace tilelang::emulator
