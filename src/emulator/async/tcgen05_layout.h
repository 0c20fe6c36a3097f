// Computes where tcgen05 instructions put and find elements in tensor memory.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_LAYOUT_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_LAYOUT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "emulator/async/tcgen05_descriptor.h"

namespace tilelang::emulator {

// Shapes of tcgen05.ld and tcgen05.st: the PTX ISA's "matrix fragments" of a warp.
enum class AccessShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };

struct AccessShapeInfo {
  AccessShape shape;
  std::string_view name;
  int lanes;      // of one access; 16x32bx2 makes two
  int registers;  // per thread and repetition
  int columns;    // per repetition
  int largest_repetition;
};

// Null when no shape has this name.
const AccessShapeInfo* FindAccessShape(std::string_view name);
const AccessShapeInfo& InfoOf(AccessShape shape);

struct TmemCell {
  int lane;
  int column;
};

// Cell of register `r` of thread `t`, relative to the address; for 16x32bx2 relative to the address
// of the thread's half.
constexpr TmemCell CellOf(AccessShape shape, int t, int r) {
  switch (shape) {
    case AccessShape::k32x32b:
      return {t, r};
    case AccessShape::k16x64b:
      return {(t >> 2) + 8 * (t & 1), ((t >> 1) & 1) + 2 * r};
    case AccessShape::k16x128b:
      return {(t >> 2) + 8 * (r & 1), (t & 3) + 4 * (r >> 1)};
    case AccessShape::k16x256b:
      return {(t >> 2) + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)};
    case AccessShape::k16x32bx2:
      return {t & 15, r};
  }
  return {0, 0};
}

// A rectangle of tensor-memory cells that an operation reads or writes.
struct TmemRegion {
  int lane;
  int lanes;
  int column;
  int columns;
};

// The accumulator and a tensor-memory A of one instruction consist, in each of its CTAs, of column
// segments. Segment s holds columns [first_column, first_column + columns) of D from the D address
// on. Row m of the CTA is at lane RowLane(m) + lane_offset. A tensor-memory A is read from the same
// lanes.
struct AccumulatorSegment {
  int first_column;
  int columns;
  int lane_offset;
};

struct AccumulatorLayout {
  std::vector<AccumulatorSegment> segments;
  bool scattered;  // M = 64 without .ws: sixteen rows in each quarter of 32 lanes

  int RowLane(int row) const { return scattered ? 32 * (row / 16) + row % 16 : row; }
};

// Layouts D, E, F and G of the PTX ISA for one CTA, A and B for pairs.
AccumulatorLayout AccumulatorLayoutOf(const InstructionDescriptor& instruction);

// Shapes of tcgen05.cp.
struct CopyShape {
  std::string_view name;       // "128x256b"
  std::string_view multicast;  // ".warpx4" and so on without the dot; empty if none
  int rows;
  int units;  // 16-byte units of a row, four columns each
};

// Null when the pair is no shape of tcgen05.cp.
const CopyShape* FindCopyShape(std::string_view name, std::string_view multicast);
// Lanes that receive source row `row`.
std::vector<int> CopyLanes(const CopyShape& shape, int row);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_LAYOUT_H_
