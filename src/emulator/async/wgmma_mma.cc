#include "emulator/async/wgmma_mma.h"

#include <cstring>

#include "emulator/async/matrix_operand.h"
#include "emulator/numerics/matrix_multiplier.h"

namespace tilelang::emulator {
namespace {

// Says where a thread's registers hold an element: PTX ISA, "Register fragments" of wgmma.
struct FragmentPlace {
  int warp;
  int lane;
  int index;     // of the register
  int half = 0;  // of a register with two f16
};

FragmentPlace AccumulatorPlace(AccumulatorType type, int row, int column) {
  const int warp = row / 16;
  const int lane = row % 8 * 4 + column % 8 / 2;
  const int lower = row / 8 % 2;
  if (type == AccumulatorType::kF16) return {warp, lane, column / 8 * 2 + lower, column % 2};
  return {warp, lane, column / 8 * 4 + lower * 2 + column % 2};
}

// The register that holds byte `byte` of a row of A; types differ in how many elements that is.
FragmentPlace OperandPlace(int row, int byte) {
  return {row / 16, row % 8 * 4 + byte % 16 / 4, row / 8 % 2 + byte / 16 * 2};
}

uint32_t* RegisterAt(const std::array<Warp*, kWarpgroupWarps>& warps,
                     const std::vector<uint32_t>& slots, const FragmentPlace& place) {
  return warps[place.warp]->Reg<uint32_t>(slots[place.index]) + place.lane;
}

void LoadA(const WgmmaPlan& plan, const uint8_t* shared,
           const std::array<Warp*, kWarpgroupWarps>& warps, MatrixMultiplier& multiplier) {
  const WgmmaForm& form = *plan.form;
  const auto put = [&](int row, int k, uint32_t bits) { multiplier.SetA(row, k, bits); };
  if (!form.a_in_registers) {
    VisitOperand(plan.a_units, form.a_major, form.a_type, kWgmmaRows, form.depth(), shared, put);
    return;
  }
  const int bytes = ContainerBytes(form.a_type);
  for (int row = 0; row < kWgmmaRows; ++row) {
    for (int k = 0; k < form.depth(); ++k) {
      const uint32_t word = *RegisterAt(warps, form.a_slots, OperandPlace(row, k * bytes));
      const uint32_t bits = word >> (8 * (k * bytes % 4));
      put(row, k, bytes == 4 ? bits : bits & ((1u << 8 * bytes) - 1));
    }
  }
}

std::string LoadPlaces(const WgmmaForm& form, const std::array<Warp*, kWarpgroupWarps>& warps,
                       MatrixMultiplier& multiplier) {
  return VisitPlaces(
      form.pattern, IndexOrder::kAny, kWgmmaRows, form.depth(),
      [&](int row, int chunk) {
        const WarpMetadata::Place at = form.metadata.At(row % 16, chunk);
        return warps[row / 16]->Reg<uint32_t>(form.a_slots.back())[at.lane] >> at.shift;
      },
      [&](int row, int k, int place) { multiplier.SetPlace(row, k, place); });
}

void ExchangeRow(const WgmmaForm& form, const std::array<Warp*, kWarpgroupWarps>& warps, int row,
                 bool store, uint32_t* cells) {
  for (int column = 0; column < form.n; ++column) {
    const FragmentPlace place = AccumulatorPlace(form.d_type, row, column);
    uint32_t* target = RegisterAt(warps, form.d_slots, place);
    if (form.d_type != AccumulatorType::kF16) {
      std::memcpy(store ? target : cells + column, store ? cells + column : target, 4);
    } else if (store) {
      const int shift = 16 * place.half;
      *target = (*target & ~(0xFFFFu << shift)) | (cells[column] & 0xFFFF) << shift;
    } else {
      cells[column] = *target >> (16 * place.half) & 0xFFFF;
    }
  }
}

}  // namespace

WgmmaPlan PlanWgmma(const WgmmaForm& form, const WgmmaOperands& operands) {
  WgmmaPlan plan;
  plan.form = &form;
  plan.operands = operands;
  const auto units = [&](uint64_t bits, MajorMode major, MatrixType type, int rows, int depth,
                         const char* operand) {
    const auto matrix = MatrixDescriptor::Parse(bits, DescriptorFormat::kWgmma, operand);
    if (!matrix.warning.empty()) plan.warnings.push_back(matrix.warning);
    const int bytes = ContainerBytes(type);
    return OperandUnits(matrix, major, rows, depth, bytes, depth * bytes / kUnitBytes);
  };
  if (!form.a_in_registers) {
    plan.a_units = units(operands.a, form.a_major, form.a_type, kWgmmaRows, form.depth(), "A");
  }
  plan.b_units = units(operands.b, form.b_major, form.b_type, form.n, form.lines(), "B");
  return plan;
}

std::string RunWgmma(const WgmmaPlan& plan, const uint8_t* shared,
                     const std::array<Warp*, kWarpgroupWarps>& warps) {
  thread_local MatrixMultiplier multiplier;
  const WgmmaForm& form = *plan.form;
  MultiplierShape shape{kWgmmaRows,  form.n,        form.depth(),  form.a_type,  form.b_type,
                        form.d_type, form.negate_a, form.negate_b, form.saturate};
  shape.options = AccumulationOf(TensorCore::kHopperWarpgroup, form.a_type);
  shape.sparse = form.sparse();
  multiplier.Start(shape);
  multiplier.StartA();
  VisitOperand(plan.b_units, form.b_major, form.b_type, form.n, form.lines(), shared,
               [&](int column, int k, uint32_t bits) { multiplier.SetB(column, k, bits); });
  LoadA(plan, shared, warps, multiplier);
  if (form.sparse()) {
    const std::string problem = LoadPlaces(form, warps, multiplier);
    if (!problem.empty()) return problem;
  }
  for (int row = 0; row < kWgmmaRows; ++row) {
    uint32_t cells[256];
    if (plan.operands.accumulate) ExchangeRow(form, warps, row, false, cells);
    multiplier.Row(row, 0, form.n, plan.operands.accumulate, cells);
    ExchangeRow(form, warps, row, true, cells);
  }
  return "";
}

}  // namespace tilelang::emulator
