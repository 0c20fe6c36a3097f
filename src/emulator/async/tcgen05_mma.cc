#include "emulator/async/tcgen05_mma.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/core/error.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

constexpr int kUnitBytes = 16;
constexpr int kOperandColumns = 8;  // a tensor-memory A takes 32 bytes of each lane

[[noreturn]] void IllegalAddress(const std::string& message) {
  throw EmulatorError("tmem", message);
}

bool IsSixBit(MatrixType type) { return type == MatrixType::kE2m3 || type == MatrixType::kE3m2; }

// Bits of element `i` of a 16-byte unit of shared memory. Types of fewer than eight bits are packed
// at the start of the unit, as the padded TMA types deliver them.
uint32_t UnitElement(MatrixType type, const uint8_t* unit, int i) {
  if (type == MatrixType::kE2m1) return (unit[i / 2] >> (4 * (i % 2))) & 0xF;
  if (IsSixBit(type)) {
    const int bit = 6 * i;
    const uint32_t pair = unit[bit / 8] | (static_cast<uint32_t>(unit[bit / 8 + 1]) << 8);
    return (pair >> (bit % 8)) & 0x3F;
  }
  uint32_t bits = 0;
  const int bytes = ContainerBytes(type);
  std::memcpy(&bits, unit + i * bytes, bytes);
  return bits;
}

// Bits of an element that tensor memory holds in a container of whole bytes. The PTX ISA's figures
// centre four bits in their byte (bits 5:2).
uint32_t ContainerElement(MatrixType type, const uint8_t* row, int i) {
  uint32_t bits = 0;
  const int bytes = ContainerBytes(type);
  std::memcpy(&bits, row + i * bytes, bytes);
  return type == MatrixType::kE2m1 ? (bits >> 2) & 0xF : bits;
}

// Calls put(row, k, bits) for every element of an operand in shared memory.
template <typename Put>
void VisitShared(const std::vector<uint32_t>& units, MajorMode major, MatrixType type, int rows,
                 int depth, const uint8_t* shared, Put put) {
  const int per_unit = kUnitBytes / ContainerBytes(type);
  if (major == MajorMode::kK) {
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < depth; ++k) {
        const uint8_t* unit = shared + units[row * 2 + k / per_unit];
        put(row, k, UnitElement(type, unit, k % per_unit));
      }
    }
    return;
  }
  const int groups = rows / per_unit;
  for (int k = 0; k < depth; ++k) {
    for (int row = 0; row < rows; ++row) {
      const uint8_t* unit = shared + units[k * groups + row / per_unit];
      put(row, k, UnitElement(type, unit, row % per_unit));
    }
  }
}

// Calls put(row, k, bits) for every element of A, wherever it is. `lane_offset` selects the copy
// of a tensor-memory A that one segment of D uses.
template <typename Put>
void VisitA(const MmaPlan& plan, const uint8_t* shared, TensorMemory& tmem, int lane_offset,
            Put put) {
  const InstructionDescriptor& in = plan.instruction;
  if (!plan.operands.a_in_tmem) {
    VisitShared(plan.a_units, in.a_major, in.a_type, in.m, plan.depth, shared, put);
    return;
  }
  const TmemAddress address(static_cast<uint32_t>(plan.operands.a));
  for (int row = 0; row < in.m; ++row) {
    const int source = plan.operands.shift_a ? std::min(row + 1, in.m - 1) : row;
    const int lane = address.lane() + plan.layout.RowLane(source) + lane_offset;
    uint8_t bytes[kOperandColumns * 4];
    std::memcpy(bytes, tmem.Row(lane) + address.column(), sizeof bytes);
    for (int k = 0; k < plan.depth; ++k) put(row, k, ContainerElement(in.a_type, bytes, k));
  }
}

// Calls put(column, k, bits) for every element of B by the column of D that it contributes to.
template <typename Put>
void VisitB(const MmaPlan& plan, const uint8_t* shared, Put put) {
  const InstructionDescriptor& in = plan.instruction;
  VisitShared(plan.b_units, in.b_major, in.b_type, plan.b_rows, plan.depth, shared,
              [&](int row, int k, uint32_t bits) {
                const int column = row - plan.columns.shift;
                if (column < 0 || column >= in.n) return;
                put(column, k, plan.columns.zero[column] ? 0 : bits);
              });
}

// The arithmetic of one instruction over decoded operands; reused between instructions, because
// allocating them would cost more than decoding.
class FloatMachine {
 public:
  void LoadA(const MmaPlan& plan, const uint8_t* shared, TensorMemory& tmem, int lane_offset) {
    const InstructionDescriptor& in = plan.instruction;
    a_.Reset(in.m, plan.depth, in.m);
    VisitA(plan, shared, tmem, lane_offset, [&](int row, int k, uint32_t bits) {
      const float value = DecodeElement(in.a_type, bits);
      StoreElement(a_, in.a_type, row, k, row, in.negate_a ? -value : value);
    });
  }
  void LoadB(const MmaPlan& plan, const uint8_t* shared) {
    const InstructionDescriptor& in = plan.instruction;
    b_.Reset(plan.depth, in.n, in.n);
    VisitB(plan, shared, [&](int column, int k, uint32_t bits) {
      const float value = DecodeElement(in.b_type, bits);
      StoreElement(b_, in.b_type, k, column, column, in.negate_b ? -value : value);
    });
  }
  void Row(const MmaPlan& plan, int row, const AccumulatorSegment& segment, uint32_t* cells) {
    const MmaOperands& operands = plan.operands;
    const FusedRowTask task{
        &a_, &b_, row, segment.first_column, plan.depth, segment.columns, {25, operands.scale_d}};
    const bool half = plan.instruction.d_type == AccumulatorType::kF16;
    float c[256] = {};
    for (int j = 0; operands.accumulate && j < segment.columns; ++j) {
      c[j] = half ? F16ToF32(static_cast<uint16_t>(cells[j])) : std::bit_cast<float>(cells[j]);
    }
    if (half) {
      uint16_t d[256];
      FusedRowToF16(task, c, d);
      std::copy(d, d + segment.columns, cells);
    } else {
      float d[256];
      FusedRowToF32(task, c, d);
      std::memcpy(cells, d, segment.columns * sizeof(float));
    }
  }

 private:
  DecodedMatrix a_;
  DecodedMatrix b_;
};

class IntegerMachine {
 public:
  void LoadA(const MmaPlan& plan, const uint8_t* shared, TensorMemory& tmem, int lane_offset) {
    const MatrixType type = plan.instruction.a_type;
    a_.resize(static_cast<size_t>(plan.instruction.m) * plan.depth);
    VisitA(plan, shared, tmem, lane_offset, [&](int row, int k, uint32_t bits) {
      a_[row * plan.depth + k] = static_cast<int16_t>(DecodeElement(type, bits));
    });
  }
  void LoadB(const MmaPlan& plan, const uint8_t* shared) {
    const InstructionDescriptor& in = plan.instruction;
    b_.resize(static_cast<size_t>(in.n) * plan.depth);
    VisitB(plan, shared, [&](int column, int k, uint32_t bits) {
      b_[k * in.n + column] = static_cast<int16_t>(DecodeElement(in.b_type, bits));
    });
  }
  void Row(const MmaPlan& plan, int row, const AccumulatorSegment& segment, uint32_t* cells) {
    int32_t c[256] = {};
    if (plan.operands.accumulate) std::memcpy(c, cells, segment.columns * sizeof(int32_t));
    int32_t d[256];
    IntegerRow(a_.data() + row * plan.depth, b_.data() + segment.first_column, plan.instruction.n,
               plan.depth, segment.columns, plan.instruction.saturate, c, d);
    std::memcpy(cells, d, segment.columns * sizeof(int32_t));
  }

 private:
  std::vector<int16_t> a_;
  std::vector<int16_t> b_;
};

template <typename Machine>
void RunOn(Machine& machine, const MmaPlan& plan, const uint8_t* shared, TensorMemory& tmem) {
  const MmaOperands& operands = plan.operands;
  const TmemAddress d(operands.d);
  machine.LoadB(plan, shared);
  for (size_t s = 0; s < plan.layout.segments.size(); ++s) {
    const AccumulatorSegment& segment = plan.layout.segments[s];
    if (s == 0 || operands.a_in_tmem) machine.LoadA(plan, shared, tmem, segment.lane_offset);
    for (int row = 0; row < plan.instruction.m; ++row) {
      const int lane = d.lane() + plan.layout.RowLane(row) + segment.lane_offset;
      if ((operands.disabled_lanes[lane / 32] >> (lane % 32)) & 1) continue;
      machine.Row(plan, row, segment, tmem.Row(lane) + d.column());
      for (int j = 0; j < segment.columns; ++j) tmem.MarkWritten(lane, d.column() + j);
    }
  }
}

// The lanes of `columns` columns from `address` on that the layout's rows occupy.
std::vector<TmemRegion> RowRegions(const MmaPlan& plan, uint32_t address, int columns) {
  const TmemAddress base(address);
  std::vector<TmemRegion> regions;
  for (const AccumulatorSegment& segment : plan.layout.segments) {
    const int first = base.lane() + segment.lane_offset;
    if (plan.layout.scattered) {
      for (int q = 0; q < 4; ++q) regions.push_back({first + 32 * q, 16, base.column(), columns});
    } else {
      regions.push_back({first, plan.instruction.m, base.column(), columns});
    }
  }
  return regions;
}

void CheckLane(const MmaPlan& plan, uint32_t address, const char* operand) {
  const int lane = TmemAddress(address).lane();
  if (lane == 0 || (plan.layout.scattered && lane == 16)) return;
  IllegalAddress(std::string(operand) + " of tcgen05.mma starts at lane " + std::to_string(lane) +
                 "; with M=" + std::to_string(plan.instruction.m) + " it must be lane 0" +
                 (plan.layout.scattered ? " or 16" : ""));
}

void PlanA(MmaPlan& plan) {
  const InstructionDescriptor& in = plan.instruction;
  const MmaOperands& operands = plan.operands;
  if (!operands.a_in_tmem) {
    if (operands.shift_a) {
      throw EmulatorError("illegal-operand", ".ashift needs A in tensor memory");
    }
    const SmemDescriptor a = SmemDescriptor::Parse(operands.a, "A");
    CheckOperandLayout(a, in.a_major, in.a_type, "A");
    if (!a.warning.empty()) plan.warnings.push_back(a.warning);
    plan.a_units = OperandUnits(a, in.a_major, in.m, plan.depth, ContainerBytes(in.a_type));
    return;
  }
  if (in.a_major != MajorMode::kK) {
    throw EmulatorError("descriptor", "A in tensor memory is always K-major: clear bit 15");
  }
  if (operands.shift_a && in.m != 128) {
    throw EmulatorError("illegal-operand", ".ashift needs M=128, not M=" + std::to_string(in.m));
  }
  const uint32_t address = static_cast<uint32_t>(operands.a);
  CheckLane(plan, address, "A");
  if (plan.layout.scattered && TmemAddress(address).lane() != TmemAddress(operands.d).lane()) {
    IllegalAddress("A and D of tcgen05.mma with M=64 must start at the same lane, 0 or 16");
  }
  plan.a_cells = RowRegions(plan, address, kOperandColumns);
}

void PlanB(MmaPlan& plan) {
  const InstructionDescriptor& in = plan.instruction;
  plan.columns = ColumnMask::Parse(plan.operands.column_mask, in);
  // A unit of an MN-major operand holds elements of several columns.
  const int block = in.b_major == MajorMode::kMn ? kUnitBytes / ContainerBytes(in.b_type) : 1;
  plan.b_rows = (in.n + plan.columns.shift + block - 1) / block * block;
  const SmemDescriptor b = SmemDescriptor::Parse(plan.operands.b, "B");
  CheckOperandLayout(b, in.b_major, in.b_type, "B");
  if (!b.warning.empty()) plan.warnings.push_back(b.warning);
  plan.b_units = OperandUnits(b, in.b_major, plan.b_rows, plan.depth, ContainerBytes(in.b_type));
}

}  // namespace

MmaPlan PlanMma(const MmaOperands& operands) {
  MmaPlan plan;
  plan.operands = operands;
  plan.depth = MmaDepth(operands.kind);
  plan.instruction =
      InstructionDescriptor::Parse(operands.instruction, operands.kind, operands.weight_stationary);
  plan.layout = AccumulatorLayoutOf(plan.instruction);
  CheckLane(plan, operands.d, "D");
  plan.d_cells = RowRegions(plan, operands.d, plan.layout.segments[0].columns);
  PlanA(plan);
  PlanB(plan);
  return plan;
}

void RunMma(const MmaPlan& plan, const uint8_t* shared, TensorMemory& tmem) {
  thread_local FloatMachine float_machine;
  thread_local IntegerMachine integer_machine;
  if (plan.operands.kind == MmaKind::kI8) {
    RunOn(integer_machine, plan, shared, tmem);
  } else {
    RunOn(float_machine, plan, shared, tmem);
  }
}

CopyPlan PlanCopy(const CopyShape& shape, CopyFormat format, uint32_t destination,
                  uint64_t descriptor) {
  CopyPlan plan;
  plan.shape = &shape;
  plan.format = format;
  plan.destination = destination;
  const SmemDescriptor source = SmemDescriptor::Parse(descriptor, "the source of tcgen05.cp");
  plan.warning = source.warning;
  plan.units = RowUnits(source, shape.rows, shape.units);
  const TmemAddress address(destination);
  if (address.lane() != 0) {
    IllegalAddress("tcgen05.cp." + std::string(shape.name) + " writes from lane 0 on, not lane " +
                   std::to_string(address.lane()));
  }
  const int columns = 4 * shape.units;
  if (shape.rows == 4) {
    for (int row = 0; row < 4; ++row)
      plan.cells.push_back({32 * row, 1, address.column(), columns});
  } else {
    plan.cells.push_back({0, TensorMemory::kLanes, address.column(), columns});
  }
  return plan;
}

void RunCopy(const CopyPlan& plan, const uint8_t* shared, TensorMemory& tmem) {
  const int column = TmemAddress(plan.destination).column();
  for (int row = 0; row < plan.shape->rows; ++row) {
    for (int u = 0; u < plan.shape->units; ++u) {
      const uint8_t* source = shared + plan.units[row * plan.shape->units + u];
      uint8_t unit[kUnitBytes];
      for (int i = 0; i < kUnitBytes; ++i) {
        switch (plan.format) {
          case CopyFormat::kPlain:
            unit[i] = source[i];
            break;
          case CopyFormat::kFrom6Bit:
            unit[i] = static_cast<uint8_t>(UnitElement(MatrixType::kE2m3, source, i));
            break;
          case CopyFormat::kFrom4Bit:
            unit[i] = static_cast<uint8_t>(UnitElement(MatrixType::kE2m1, source, i) << 2);
            break;
        }
      }
      uint32_t words[4];
      std::memcpy(words, unit, sizeof words);
      for (int lane : CopyLanes(*plan.shape, row)) {
        for (int i = 0; i < 4; ++i) tmem.Store(lane, column + 4 * u + i, words[i]);
      }
    }
  }
}

void CheckShift(uint32_t address) {
  if (TmemAddress(address).lane() % 32 != 0) {
    IllegalAddress("tcgen05.shift starts at lane " + std::to_string(TmemAddress(address).lane()) +
                   "; it must be a multiple of 32");
  }
}

void RunShift(uint32_t address, TensorMemory& tmem) {
  const TmemAddress base(address);
  for (int lane = base.lane(); lane < TensorMemory::kLanes; ++lane) {
    if (lane % 32 == 31) continue;
    std::copy_n(tmem.Row(lane + 1) + base.column(), kOperandColumns,
                tmem.Row(lane) + base.column());
  }
}

}  // namespace tilelang::emulator
