#include "emulator/async/wgmma_mma.h"

#include <cstring>

#include "emulator/async/matrix_multiplication.h"
#include "emulator/async/matrix_operand.h"
#include "emulator/core/algebra.h"

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

using Warps = std::array<Warp*, kWarpgroupWarps>;

template <typename Multiplication>
void LoadA(const WgmmaPlan& plan, const uint8_t* shared, const Warps& warps,
           Multiplication& multiplication) {
  const WgmmaForm& form = *plan.form;
  const auto put = [&](int row, int k, const OperandElement& at) {
    multiplication.SetA(row, k, at);
  };
  if (!form.a_in_registers) {
    VisitOperand(plan.a_units, form.a_major, form.a_type, kWgmmaRows, form.depth(), shared, put);
    return;
  }
  const int bytes = ContainerBytes(form.a_type);
  for (int row = 0; row < kWgmmaRows; ++row) {
    for (int k = 0; k < form.depth(); ++k) {
      const FragmentPlace place = OperandPlace(row, k * bytes);
      const uint32_t word = *RegisterAt(warps, form.a_slots, place);
      const RegisterElement element{warps[place.warp], form.a_slots[place.index], place.lane,
                                    k * bytes % 4};
      const uint32_t bits = word >> (8 * element.offset);
      multiplication.SetA(row, k, bytes == 4 ? bits : bits & ((1u << 8 * bytes) - 1), element);
    }
  }
}

template <typename Multiplication>
std::string LoadPlaces(const WgmmaForm& form, const Warps& warps, Multiplication& multiplication) {
  return VisitPlaces(
      form.pattern, IndexOrder::kAny, kWgmmaRows, form.depth(),
      [&](int row, int chunk) {
        const WarpMetadata::Place at = form.metadata.At(row % 16, chunk);
        return warps[row / 16]->Reg<uint32_t>(form.a_slots.back())[at.lane] >> at.shift;
      },
      [&](int row, int k, int place) { multiplication.SetPlace(row, k, place); });
}

// Calls each(column, register) for the accumulators of a row.
template <typename Each>
void ForEachAccumulator(const WgmmaForm& form, const Warps& warps, int row, Each each) {
  for (int column = 0; column < form.n; ++column) {
    const FragmentPlace place = AccumulatorPlace(form.d_type, row, column);
    each(column,
         RegisterElement{warps[place.warp], form.d_slots[place.index], place.lane, 2 * place.half});
  }
}

void ExchangeRow(const WgmmaForm& form, const Warps& warps, int row, bool store, uint32_t* cells) {
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

template <template <typename> typename Multiplication>
std::string RunAs(const WgmmaPlan& plan, const uint8_t* shared, const Warps& warps) {
  thread_local Multiplication<MatrixMultiplier> multiplication;
  const WgmmaForm& form = *plan.form;
  MultiplierShape shape{kWgmmaRows,  form.n,        form.depth(),  form.a_type,  form.b_type,
                        form.d_type, form.negate_a, form.negate_b, form.saturate};
  shape.options = AccumulationOf(TensorCore::kHopperWarpgroup, form.a_type);
  shape.sparse = form.sparse();
  multiplication.Start(shape);
  multiplication.StartA();
  VisitOperand(
      plan.b_units, form.b_major, form.b_type, form.n, form.lines(), shared,
      [&](int column, int k, const OperandElement& at) { multiplication.SetB(column, k, at); });
  LoadA(plan, shared, warps, multiplication);
  if (form.sparse()) {
    const std::string problem = LoadPlaces(form, warps, multiplication);
    if (!problem.empty()) return problem;
  }
  for (int row = 0; row < kWgmmaRows; ++row) {
    uint32_t cells[256];
    const auto registers = [&](auto each) { ForEachAccumulator(form, warps, row, each); };
    if (plan.operands.accumulate) ExchangeRow(form, warps, row, false, cells);
    multiplication.FollowRow(row, form.n, plan.operands.accumulate, registers);
    multiplication.Row(row, form.n, plan.operands.accumulate, cells);
    ExchangeRow(form, warps, row, true, cells);
    multiplication.StoreRow(registers);
  }
  return "";
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
  if (current_algebra) return RunAs<FollowedMultiplication>(plan, shared, warps);
  return RunAs<PlainMultiplication>(plan, shared, warps);
}

}  // namespace tilelang::emulator
