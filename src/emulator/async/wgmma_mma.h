// wgmma.mma_async as a function of shared memory and the registers of a warpgroup.
#ifndef TILELANG_EMULATOR_ASYNC_WGMMA_MMA_H_
#define TILELANG_EMULATOR_ASYNC_WGMMA_MMA_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/async/matrix_descriptor.h"
#include "emulator/core/machine.h"
#include "emulator/numerics/sparsity.h"
#include "emulator/numerics/tensor_core.h"

namespace tilelang::emulator {

constexpr int kWarpgroupWarps = 4;
constexpr int kWgmmaRows = 64;
constexpr int kWgmmaDepthBytes = 32;  // that an instruction takes of a row of A
constexpr int kWgmmaFragments = 4;    // registers of a thread that hold A

// The modifiers and immediates of one instruction.
struct WgmmaForm {
  int n = 0;
  MatrixType a_type = MatrixType::kF16;
  MatrixType b_type = MatrixType::kF16;
  AccumulatorType d_type = AccumulatorType::kF32;
  MajorMode a_major = MajorMode::kK;
  MajorMode b_major = MajorMode::kK;
  bool a_in_registers = false;
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;
  std::vector<uint32_t> d_slots;
  SparsePattern pattern = SparsePattern::kDense;
  WarpMetadata metadata;           // of a sparse A
  std::vector<uint32_t> a_slots;   // of fragments, and the last of the metadata of a sparse A
  std::vector<std::string> names;  // of the registers of d_slots, then of a_slots

  bool sparse() const { return pattern != SparsePattern::kDense; }
  // Containers of elements of a row of A, and of a column of B.
  int depth() const { return kWgmmaDepthBytes / ContainerBytes(a_type); }
  int lines() const { return sparse() ? 2 * depth() : depth(); }
  // Registers of a thread that hold D.
  int accumulators() const { return d_type == AccumulatorType::kF16 ? n / 4 : n / 2; }
};

// Operands that all threads of the warpgroup must agree on.
struct WgmmaOperands {
  uint64_t a = 0;  // descriptor, or 0 for A in registers
  uint64_t b = 0;
  bool accumulate = false;  // scale-d
  bool operator==(const WgmmaOperands&) const = default;
};

// An instruction with all that it will touch, ready to run.
struct WgmmaPlan {
  const WgmmaForm* form = nullptr;
  WgmmaOperands operands;
  std::vector<uint32_t> a_units;  // shared addresses of 16-byte units; empty for A in registers
  std::vector<uint32_t> b_units;
  std::vector<std::string> warnings;
};

// Decodes the descriptors: EmulatorError "descriptor". Does not look at memory.
WgmmaPlan PlanWgmma(const WgmmaForm& form, const WgmmaOperands& operands);

// Runs the instruction on the registers of the warpgroup's warps. Returns what is wrong with the
// metadata of a sparse A, or "".
std::string RunWgmma(const WgmmaPlan& plan, const uint8_t* shared,
                     const std::array<Warp*, kWarpgroupWarps>& warps);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_WGMMA_MMA_H_
