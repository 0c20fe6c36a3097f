#include "emulator/async/tcgen05_scales.h"

#include <algorithm>

#include "emulator/base/error.h"

namespace tilelang::emulator {
namespace {

constexpr int kQuarterLanes = 32;
constexpr int kQuarters = 4;

// The two highest bits may repeat which bytes of a word are the factors, as CUTLASS's addresses of
// factors do (make_runtime_instr_desc_block_scaled takes them from there).
constexpr int kIdShift = 30;

uint32_t ScaleAddress(uint32_t address, int id, const char* operand) {
  if (address >> kIdShift == static_cast<uint32_t>(id)) address &= (1u << kIdShift) - 1;
  const int lane = TmemAddress(address).lane();
  if (lane == 0) return address;
  throw EmulatorError("tmem", std::string("the scale factors of ") + operand + " start at lane " +
                                  std::to_string(lane) + "; they have all lanes, from 0 on");
}

}  // namespace

ScaleOperand ScalesOfA(const InstructionDescriptor& in, uint32_t address) {
  const uint32_t first = ScaleAddress(address, in.scale_a_id, "A");
  return {first, in.rows(), 1, in.scale_a_id, in.scale_count};
}

ScaleOperand ScalesOfB(const InstructionDescriptor& in, uint32_t address) {
  const uint32_t first = ScaleAddress(address, in.scale_b_id, "B");
  const int halves = in.pair && in.m == 128 ? 2 : 1;
  return {first, in.n / halves, halves, in.scale_b_id, in.scale_count};
}

std::vector<TmemRegion> ScaleCells(const ScaleOperand& operand) {
  std::vector<TmemRegion> cells;
  const int whole = operand.rows / kQuarterLanes, rest = operand.rows % kQuarterLanes;
  for (int group = 0; group < operand.groups(); ++group) {
    const int column = TmemAddress(operand.address).column() + group * operand.group_columns();
    if (whole) cells.push_back({0, TensorMemory::kLanes, column, whole});
    for (int quarter = 0; rest && quarter < kQuarters; ++quarter) {
      cells.push_back({quarter * kQuarterLanes, rest, column + whole, 1});
    }
  }
  return cells;
}

bool VisitScales(const ScaleOperand& operand, TensorMemory& tensor,
                 const std::function<void(int, int, const uint8_t*)>& put) {
  bool agree = true;
  const int copies = kQuarters / operand.halves;
  const int first = TmemAddress(operand.address).column();
  for (int row = 0; row < operand.rows * operand.halves; ++row) {
    const int half = row / operand.rows, own = row % operand.rows;
    const int lane = half * copies * kQuarterLanes + own % kQuarterLanes;
    for (int j = 0; j < operand.count; ++j) {
      const int byte = operand.id + j;
      const int column = first + own / kQuarterLanes + byte / 4 * operand.group_columns();
      const auto code = [&](int copy) {
        const uint32_t& cell = tensor.Cell(lane + copy * kQuarterLanes, column);
        return reinterpret_cast<const uint8_t*>(&cell) + byte % 4;
      };
      for (int copy = 1; copy < copies; ++copy) agree &= *code(copy) == *code(0);
      put(row, j, code(0));
    }
  }
  return agree;
}

}  // namespace tilelang::emulator
