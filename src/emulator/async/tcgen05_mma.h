// tcgen05.mma, tcgen05.cp and tcgen05.shift as functions of shared and tensor memory.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_MMA_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_MMA_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/async/tcgen05_column_mask.h"
#include "emulator/async/tcgen05_descriptor.h"
#include "emulator/async/tcgen05_layout.h"
#include "emulator/async/tcgen05_scales.h"
#include "emulator/memory/tensor_memory.h"
#include "emulator/numerics/sparsity.h"

namespace tilelang::emulator {

// Operands of one tcgen05.mma as the issuing thread gave them. Of a pair both CTAs use the same.
struct MmaOperands {
  MmaKind kind = MmaKind::kF16;
  int scale_block = 0;  // of a block-scaled kind: elements of K that share a scale factor
  bool long_k = false;  // the device has K = 96
  bool weight_stationary = false;
  bool pair = false;    // .cta_group::2
  bool sparse = false;  // .sp
  bool a_in_tmem = false;
  bool shift_a = false;      // .ashift
  uint32_t d = 0;            // tensor-memory address
  uint64_t a = 0;            // descriptor, or tensor-memory address
  uint64_t b = 0;            // descriptor
  uint32_t instruction = 0;  // instruction descriptor
  uint32_t metadata = 0;     // tensor-memory address of the metadata of a sparse A
  uint32_t scale_a = 0;      // tensor-memory addresses of scale factors
  uint32_t scale_b = 0;
  bool accumulate = false;                   // enable-input-d
  uint64_t column_mask = 0;                  // zero-column mask descriptor, with .ws
  int scale_d = 0;                           // the old accumulator enters times 2^-scale_d
  std::array<uint32_t, 8> disabled_lanes{};  // four words for each CTA
};

// A decoded and checked instruction: everything it will touch, in each CTA alike, ready to run.
struct MmaPlan {
  MmaOperands operands;
  InstructionDescriptor instruction;
  AccumulatorLayout layout;
  ColumnMask columns;
  int depth = 0;                  // elements of a row of A
  std::vector<uint32_t> a_units;  // shared addresses of 16-byte units; empty for A in tmem
  std::vector<uint32_t> b_units;  // of `b_rows` columns of B
  int a_bytes = 0;                // of each unit that hold elements
  int b_bytes = 0;
  int b_rows = 0;
  std::vector<TmemRegion> a_cells;
  std::vector<TmemRegion> d_cells;
  SparsePattern pattern = SparsePattern::kDense;
  std::vector<TmemRegion> metadata_cells;
  ScaleOperand a_scales;  // of block-scaled kinds
  ScaleOperand b_scales;
  std::vector<TmemRegion> scale_cells;
  std::vector<std::string> warnings;
};

// Checks both descriptors, shapes and tensor-memory alignment. EmulatorError "descriptor", "tmem"
// or "unsupported". Does not look at any memory.
MmaPlan PlanMma(const MmaOperands& operands);

// The memories that an instruction uses in one CTA. `shared` points at offset 0 of the CTA's
// window.
struct MmaCta {
  const uint8_t* shared;
  TensorMemory* tensor;
};

// Runs the instruction on its CTA, or its pair, even rank first. All units of the plan must lie
// inside of the windows. Cells written are marked so. Returns a warning, or ""; EmulatorError
// "illegal-operand" for metadata of a sparse A that has no meaning.
std::string RunMma(const MmaPlan& plan, std::span<const MmaCta> ctas);

enum class CopyFormat : uint8_t { kPlain, kFrom6Bit, kFrom4Bit };

struct CopyPlan {
  const CopyShape* shape = nullptr;
  CopyFormat format = CopyFormat::kPlain;
  uint32_t destination = 0;
  std::vector<uint32_t> units;  // shared addresses, [row * shape->units + u]
  std::vector<TmemRegion> cells;
  std::string warning;
};

CopyPlan PlanCopy(const CopyShape& shape, CopyFormat format, uint32_t destination,
                  uint64_t descriptor);
void RunCopy(const CopyPlan& plan, const uint8_t* shared, TensorMemory& tmem);

// tcgen05.shift.down: in each quarter of 32 lanes from the address on, lane i takes the 32 bytes
// of lane i + 1; the last lane keeps its own.
void CheckShift(uint32_t address);
void RunShift(uint32_t address, TensorMemory& tmem);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_MMA_H_
