#include "emulator/async/tcgen05_layout.h"

#include <array>

namespace tilelang::emulator {
namespace {

constexpr std::array<AccessShapeInfo, 5> kAccessShapes = {{
    {AccessShape::k32x32b, "32x32b", 32, 1, 1, 128},
    {AccessShape::k16x64b, "16x64b", 16, 1, 2, 128},
    {AccessShape::k16x128b, "16x128b", 16, 2, 4, 64},
    {AccessShape::k16x256b, "16x256b", 16, 4, 8, 32},
    {AccessShape::k16x32bx2, "16x32bx2", 16, 1, 1, 128},
}};

constexpr std::array<CopyShape, 6> kCopyShapes = {{
    {"128x256b", "", 128, 2},
    {"4x256b", "", 4, 2},
    {"128x128b", "", 128, 1},
    {"64x128b", "warpx2::02_13", 64, 1},
    {"64x128b", "warpx2::01_23", 64, 1},
    {"32x128b", "warpx4", 32, 1},
}};

}  // namespace

const AccessShapeInfo* FindAccessShape(std::string_view name) {
  for (const AccessShapeInfo& info : kAccessShapes) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

const AccessShapeInfo& InfoOf(AccessShape shape) { return kAccessShapes[static_cast<int>(shape)]; }

AccumulatorLayout AccumulatorLayoutOf(const InstructionDescriptor& instruction) {
  AccumulatorLayout layout;
  const int rows = instruction.rows();
  const bool of_pair = instruction.pair && !instruction.sparse;
  layout.scattered = rows == 64 && !instruction.weight_stationary && !of_pair;
  const int parts = instruction.weight_stationary || of_pair ? 128 / rows : 1;
  const int columns = instruction.n / parts;
  for (int part = 0; part < parts; ++part) {
    layout.segments.push_back({part * columns, columns, part * rows});
  }
  return layout;
}

const CopyShape* FindCopyShape(std::string_view name, std::string_view multicast) {
  for (const CopyShape& shape : kCopyShapes) {
    if (shape.name == name && shape.multicast == multicast) return &shape;
  }
  return nullptr;
}

std::vector<int> CopyLanes(const CopyShape& shape, int row) {
  if (shape.rows == 128) return {row};
  if (shape.rows == 4) return {32 * row};
  if (shape.rows == 32) return {row, row + 32, row + 64, row + 96};
  if (shape.multicast == "warpx2::02_13") return {row, row + 64};
  const int first = 64 * (row / 32) + row % 32;
  return {first, first + 32};
}

}  // namespace tilelang::emulator
