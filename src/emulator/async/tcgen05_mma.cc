#include "emulator/async/tcgen05_mma.h"

#include <algorithm>
#include <cstring>

#include "emulator/async/matrix_multiplication.h"
#include "emulator/async/matrix_operand.h"
#include "emulator/base/error.h"
#include "emulator/core/algebra.h"
#include "emulator/numerics/scaled_multiplier.h"

namespace tilelang::emulator {
namespace {

constexpr int kOperandColumns = 8;  // a tensor-memory A takes 32 bytes of each lane

// Units of shared memory that so many elements along K take: 32 bytes of each row of A, or 48.
int UnitsAlongK(const InstructionDescriptor& in, int elements) {
  return IsFp4(in.kind) ? elements / 32 : 2 * elements / in.depth;
}

// Returns the format of descriptors of operands in shared memory.
DescriptorFormat FormatOf(const InstructionDescriptor& in) {
  return in.depth == kLongDepth ? DescriptorFormat::kTcgen05K96 : DescriptorFormat::kTcgen05;
}

[[noreturn]] void IllegalAddress(const std::string& message) {
  throw EmulatorError("tmem", message);
}

// Calls put(row, k, element) for every element of a CTA's A, wherever it is. `lane_offset` selects
// the copy of a tensor-memory A that one segment of D uses.
template <typename Put>
void VisitA(const MmaPlan& plan, const MmaCta& cta, int lane_offset, Put put) {
  const InstructionDescriptor& in = plan.instruction;
  const bool nibbles = IsFp4(in.kind);
  if (!plan.operands.a_in_tmem && nibbles) {
    VisitNibbles(plan.a_units, in.rows(), plan.depth, cta.shared, put);
    return;
  }
  if (!plan.operands.a_in_tmem) {
    VisitOperand(plan.a_units, in.a_major, in.a_type, in.rows(), plan.depth, cta.shared, put);
    return;
  }
  const TmemAddress address(static_cast<uint32_t>(plan.operands.a));
  for (int row = 0; row < in.rows(); ++row) {
    const int source = plan.operands.shift_a ? std::min(row + 1, in.rows() - 1) : row;
    const int lane = address.lane() + plan.layout.RowLane(source) + lane_offset;
    const auto* bytes = reinterpret_cast<const uint8_t*>(cta.tensor->Row(lane) + address.column());
    using Packing = OperandElement::Packing;
    const Packing packing = nibbles ? Packing::kNibbles : Packing::kContainers;
    for (int k = 0; k < plan.depth; ++k) put(row, k, OperandElement{bytes, k, packing});
  }
}

// Calls put(column, k, element) for every element of B in one CTA by the column of D that it
// contributes to; the CTA's first is `first`.
template <typename Put>
void VisitB(const MmaPlan& plan, const uint8_t* shared, int first, Put put) {
  const InstructionDescriptor& in = plan.instruction;
  const auto put_row = [&](int row, int k, const OperandElement& element) {
    const int column = first + row - plan.columns.shift;
    if (column < 0 || column >= in.n) return;
    put(column, k, plan.columns.zero[column] ? OperandElement{} : element);
  };
  if (IsFp4(in.kind)) {
    VisitNibbles(plan.b_units, plan.b_rows, in.lines(), shared, put_row);
  } else {
    VisitOperand(plan.b_units, in.b_major, in.b_type, plan.b_rows, in.lines(), shared, put_row);
  }
}

MultiplierShape ShapeOf(const MmaPlan& plan) {
  const InstructionDescriptor& in = plan.instruction;
  MultiplierShape shape{in.rows(), in.n,        plan.depth,  in.a_type,  in.b_type,
                        in.d_type, in.negate_a, in.negate_b, in.saturate};
  shape.options = AccumulationOf(TensorCore::kBlackwell, in.a_type);
  shape.options.c_shift = plan.operands.scale_d;
  shape.sparse = in.sparse;
  return shape;
}

ScaledShape ScaledShapeOf(const MmaPlan& plan) {
  const InstructionDescriptor& in = plan.instruction;
  return {in.rows(),   in.n,          plan.depth,     in.a_type,      in.b_type, in.negate_a,
          in.negate_b, in.scale_type, in.scale_count, IsFp4(in.kind), in.sparse};
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
      regions.push_back({first, plan.instruction.rows(), base.column(), columns});
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
    const MatrixDescriptor a = MatrixDescriptor::Parse(operands.a, FormatOf(in), "A");
    CheckOperandLayout(a, in.a_major, in.a_type, "A");
    if (!a.warning.empty()) plan.warnings.push_back(a.warning);
    plan.a_units = OperandUnits(a, in.a_major, in.rows(), plan.depth, ContainerBytes(in.a_type),
                                UnitsAlongK(in, plan.depth));
    return;
  }
  if (in.depth == kLongDepth) {
    throw EmulatorError("unsupported", "A in tensor memory with K = 96: how many columns it takes");
  }
  if (in.a_major != MajorMode::kK) {
    throw EmulatorError("descriptor", "A in tensor memory is always K-major: clear bit 15");
  }
  if (operands.shift_a && in.rows() != 128) {
    throw EmulatorError("illegal-operand", ".ashift needs M=" + std::to_string(128 * in.ctas()) +
                                               ", not M=" + std::to_string(in.m));
  }
  const uint32_t address = static_cast<uint32_t>(operands.a);
  CheckLane(plan, address, "A");
  if (plan.layout.scattered && TmemAddress(address).lane() != TmemAddress(operands.d).lane()) {
    IllegalAddress("A and D of tcgen05.mma with M=" + std::to_string(in.m) +
                   " must start at the same lane, 0 or 16");
  }
  plan.a_cells = RowRegions(plan, address, kOperandColumns);
}

void PlanB(MmaPlan& plan) {
  const InstructionDescriptor& in = plan.instruction;
  plan.columns = ColumnMask::Parse(plan.operands.column_mask, in);
  // A unit of an MN-major operand holds elements of several columns.
  const int block = in.b_major == MajorMode::kMn ? kUnitBytes / ContainerBytes(in.b_type) : 1;
  plan.b_rows = (in.n / in.ctas() + plan.columns.shift + block - 1) / block * block;
  const MatrixDescriptor b = MatrixDescriptor::Parse(plan.operands.b, FormatOf(in), "B");
  CheckOperandLayout(b, in.b_major, in.b_type, "B");
  if (!b.warning.empty()) plan.warnings.push_back(b.warning);
  plan.b_units = OperandUnits(b, in.b_major, plan.b_rows, in.lines(), ContainerBytes(in.b_type),
                              UnitsAlongK(in, in.lines()));
}

// Metadata lies in the lanes of A's rows. Of types of 8 and fewer bits each row has 64 bits, in two
// columns. Of f16, bf16 and tf32 it has 32 bits in one column: rows g and g + 8 of each sixteen
// share the lanes of both, the first of which has their first halves. Source: CUTLASS, tmem_e_frg.
bool RowsShareMetadata(MmaKind kind) { return kind == MmaKind::kF16 || kind == MmaKind::kTf32; }

void PlanMetadata(MmaPlan& plan) {
  const InstructionDescriptor& in = plan.instruction;
  if (plan.operands.shift_a) {
    throw EmulatorError("unsupported", "tcgen05.mma.sp with .ashift: which rows its metadata has");
  }
  plan.pattern = in.kind == MmaKind::kTf32 ? SparsePattern::kOneOfTwo
                 : IsFp4(in.kind)          ? SparsePattern::kTwoPairsOfFour
                                           : SparsePattern::kTwoOfFour;
  const TmemAddress address(plan.operands.metadata);
  CheckLane(plan, plan.operands.metadata, "the metadata");
  if (plan.layout.scattered && address.lane() != TmemAddress(plan.operands.d).lane()) {
    IllegalAddress("the metadata and D of tcgen05.mma.sp with M=" + std::to_string(in.m) +
                   " must start at the same lane, 0 or 16");
  }
  if (address.column() % 2 != 0) {
    IllegalAddress("the metadata of tcgen05.mma.sp starts at column " +
                   std::to_string(address.column()) +
                   "; it must be even, and the sparsity selector names the second of two");
  }
  plan.metadata_cells =
      RowRegions(plan, plan.operands.metadata + static_cast<uint32_t>(in.selector),
                 RowsShareMetadata(in.kind) ? 1 : 2);
}

void PlanScales(MmaPlan& plan) {
  plan.a_scales = ScalesOfA(plan.instruction, plan.operands.scale_a);
  plan.b_scales = ScalesOfB(plan.instruction, plan.operands.scale_b);
  for (const ScaleOperand* operand : {&plan.a_scales, &plan.b_scales}) {
    const std::vector<TmemRegion> cells = ScaleCells(*operand);
    plan.scale_cells.insert(plan.scale_cells.end(), cells.begin(), cells.end());
  }
}

}  // namespace

MmaPlan PlanMma(const MmaOperands& operands) {
  MmaPlan plan;
  plan.operands = operands;
  const bool scaled = IsBlockScaled(operands.kind);
  plan.instruction = scaled ? InstructionDescriptor::ParseScaled(
                                  operands.instruction, operands.kind, operands.scale_block,
                                  operands.pair, operands.sparse, operands.long_k)
                            : InstructionDescriptor::Parse(operands.instruction, operands.kind,
                                                           operands.weight_stationary,
                                                           operands.pair, operands.sparse);
  plan.depth = plan.instruction.depth;
  plan.layout = AccumulatorLayoutOf(plan.instruction);
  CheckLane(plan, operands.d, "D");
  plan.d_cells = RowRegions(plan, operands.d, plan.layout.segments[0].columns);
  PlanA(plan);
  PlanB(plan);
  const bool packed = IsFp4(operands.kind);
  plan.a_bytes = packed ? kUnitBytes : DataBytes(plan.instruction.a_type);
  plan.b_bytes = packed ? kUnitBytes : DataBytes(plan.instruction.b_type);
  if (scaled) PlanScales(plan);
  if (operands.sparse) PlanMetadata(plan);
  return plan;
}

namespace {

// False when copies of scale factors differ.
template <typename Multiplication>
bool SetScalesOfA(const MmaPlan& plan, const MmaCta& cta, Multiplication& multiplication) {
  if (!IsBlockScaled(plan.instruction.kind)) return true;
  return VisitScales(plan.a_scales, *cta.tensor, [&](int row, int j, const uint8_t* place) {
    multiplication.ScaleA(row, j, place);
  });
}

// The places of a sparse A's elements; `lane_offset` as of VisitA.
template <typename Multiplication>
void SetPlaces(const MmaPlan& plan, const MmaCta& cta, int lane_offset,
               Multiplication& multiplication) {
  const InstructionDescriptor& in = plan.instruction;
  const TmemAddress address(plan.operands.metadata);
  const bool shared = RowsShareMetadata(in.kind);
  const auto index_of = [&](int row, int chunk) {
    const int bit = kIndexBits * chunk;
    const int of = shared ? row / 16 * 16 + row % 8 + 8 * (bit / 16) : row;
    const int lane = address.lane() + plan.layout.RowLane(of) + lane_offset;
    const int column = address.column() + (shared ? in.selector : bit / 32);
    return cta.tensor->Row(lane)[column] >> (shared ? 16 * (row / 8 % 2) + bit % 16 : bit % 32);
  };
  const std::string problem =
      VisitPlaces(plan.pattern, IndexOrder::kTensorMemory, in.rows(), plan.depth, index_of,
                  [&](int row, int k, int place) { multiplication.SetPlace(row, k, place); });
  if (!problem.empty()) throw EmulatorError("illegal-operand", problem);
}

// The rows of one CTA; `multiplication` has B. False when copies of scale factors differ.
template <typename Multiplication>
bool RunRows(const MmaPlan& plan, const MmaCta& cta, const uint32_t* disabled_lanes,
             Multiplication& multiplication) {
  const MmaOperands& operands = plan.operands;
  const TmemAddress d(operands.d);
  bool agree = true;
  for (size_t s = 0; s < plan.layout.segments.size(); ++s) {
    const AccumulatorSegment& segment = plan.layout.segments[s];
    if (s == 0 || operands.a_in_tmem || operands.sparse) {
      multiplication.StartA();
      VisitA(plan, cta, segment.lane_offset,
             [&](int row, int k, const OperandElement& at) { multiplication.SetA(row, k, at); });
      agree &= SetScalesOfA(plan, cta, multiplication);
      if (operands.sparse) SetPlaces(plan, cta, segment.lane_offset, multiplication);
    }
    for (int row = 0; row < plan.instruction.rows(); ++row) {
      const int lane = d.lane() + plan.layout.RowLane(row) + segment.lane_offset;
      if ((disabled_lanes[lane / 32] >> (lane % 32)) & 1) continue;
      multiplication.RowInPlace(row, segment.first_column, segment.columns, operands.accumulate,
                                cta.tensor->Row(lane) + d.column());
      for (int j = 0; j < segment.columns; ++j) cta.tensor->MarkWritten(lane, d.column() + j);
    }
  }
  return agree;
}

template <typename Multiplication>
void SetB(const MmaPlan& plan, std::span<const MmaCta> ctas, Multiplication& multiplication) {
  const int columns = plan.instruction.n / static_cast<int>(ctas.size());
  for (size_t c = 0; c < ctas.size(); ++c) {
    VisitB(
        plan, ctas[c].shared, columns * static_cast<int>(c),
        [&](int column, int k, const OperandElement& at) { multiplication.SetB(column, k, at); });
  }
}

// Each CTA has all scale factors of B.
template <template <typename> typename Multiplication>
std::string RunScaled(const MmaPlan& plan, std::span<const MmaCta> ctas) {
  thread_local Multiplication<ScaledMultiplier> multiplication;
  bool agree = true;
  for (const MmaCta& cta : ctas) {
    multiplication.Start(ScaledShapeOf(plan));
    SetB(plan, ctas, multiplication);
    agree &= VisitScales(plan.b_scales, *cta.tensor, [&](int column, int j, const uint8_t* place) {
      multiplication.ScaleB(column, j, place);
    });
    agree &= RunRows(plan, cta, plan.operands.disabled_lanes.data(), multiplication);
  }
  if (agree) return "";
  return "the scale factors of tcgen05.mma differ between the quarters of 32 lanes of tensor "
         "memory, "
         "which must hold copies (tcgen05.cp.32x128b.warpx4 writes all)";
}

template <template <typename> typename Multiplication>
std::string RunAs(const MmaPlan& plan, std::span<const MmaCta> ctas) {
  if (IsBlockScaled(plan.instruction.kind)) return RunScaled<Multiplication>(plan, ctas);
  thread_local Multiplication<MatrixMultiplier> multiplication;
  multiplication.Start(ShapeOf(plan));
  SetB(plan, ctas, multiplication);
  for (size_t c = 0; c < ctas.size(); ++c) {
    RunRows(plan, ctas[c], &plan.operands.disabled_lanes[4 * c], multiplication);
  }
  return "";
}

}  // namespace

std::string RunMma(const MmaPlan& plan, std::span<const MmaCta> ctas) {
  if (current_algebra) return RunAs<FollowedMultiplication>(plan, ctas);
  return RunAs<PlainMultiplication>(plan, ctas);
}

CopyPlan PlanCopy(const CopyShape& shape, CopyFormat format, uint32_t destination,
                  uint64_t descriptor) {
  CopyPlan plan;
  plan.shape = &shape;
  plan.format = format;
  plan.destination = destination;
  const MatrixDescriptor source =
      MatrixDescriptor::Parse(descriptor, DescriptorFormat::kTcgen05, "the source of tcgen05.cp");
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
      const size_t size = plan.format == CopyFormat::kPlain ? sizeof words : 0;
      for (int lane : CopyLanes(*plan.shape, row)) {
        for (int i = 0; i < 4; ++i) tmem.Store(lane, column + 4 * u + i, words[i]);
        if (current_algebra) current_algebra->Copy(tmem.Row(lane) + column + 4 * u, source, size);
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
    CopyBytes(tmem.Row(lane) + base.column(), tmem.Row(lane + 1) + base.column(),
              kOperandColumns * sizeof(uint32_t));
  }
}

}  // namespace tilelang::emulator
