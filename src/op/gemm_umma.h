// The encodings of tcgen05.mma: legal shapes and instruction descriptors.
// Source: PTX ISA 9.1, "tcgen05.mma instruction descriptor".
#ifndef TILELANG_OP_GEMM_UMMA_H_
#define TILELANG_OP_GEMM_UMMA_H_

#include <optional>
#include <string>

#include "ir/gemm.h"
#include "layout/tcgen05_layout.h"
#include "op/context.h"

namespace tilelang::op {

// .kind of the instruction.
enum class UmmaKind { kF16, kTF32, kF8F6F4, kI8, kMxF8F6F4, kMxF4, kMxF4NvF4 };
const char* Spelling(UmmaKind kind);
bool IsBlockScaled(UmmaKind kind);

// The kind for the types of the operands, or why there is none.
struct UmmaKindChoice {
  std::optional<UmmaKind> kind;
  std::string reason;
};
UmmaKindChoice ChooseUmmaKind(const ir::GemmNode* op, const Target& target);

// K of one instruction: 32 bytes of an operand row.
int64_t UmmaK(ir::DType operand);
// The same where it is 96 elements of float4 (sm_103a), in bytes; rows lie in buffers of 128 bytes
// then, of which an instruction may go on in the next.
inline constexpr int64_t kLongRowBytes = 48;
inline constexpr int64_t kLongBufferBytes = 128;

// The MMA of tiles.
struct UmmaProblem {
  UmmaKind kind;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  ir::DType b;
  bool a_in_tmem = false;
  bool b_mn_major = false;
  int64_t n_unit = 8;  // where in N an instruction may begin: a swizzle atom of an MN-major B
  // A pair of CTAs computes the GEMM. Each has M rows of A and C, and half of the N columns of B.
  bool in_pairs = false;
  bool sparse = false;  // A has half of the elements along K, which `k` counts
  bool long_k = false;  // an instruction has 48 bytes of an operand row, 96 elements of float4
};

// Says how a tile is cut into instructions of the shapes that the hardware has.
struct UmmaTiling {
  int64_t m = 0;  // of one instruction
  int64_t n = 0;  // likewise; the last ones along N may be narrower
  int64_t k = 0;  // of A's elements
  // The form of an instruction that keeps its columns in several groups of lanes: for M = 32 (.ws),
  // and for M = 128 in a pair. Other instructions have the default form.
  layout::MmaForm form;
  int64_t lane_groups = 1;
  std::string reason;  // why no tiling exists; empty when one does
  std::string remedy;  // what to do about it
};
UmmaTiling TileUmma(const UmmaProblem& problem);
// N rounded up to what instructions of the problem's M can cover.
int64_t WholeUmmaColumns(const UmmaProblem& problem);

// The 32-bit instruction descriptor, of an instruction of `m` rows and `n` columns; of a
// block-scaled kind without the bits that select factors.
uint32_t InstructionDescriptor(const ir::GemmNode* op, const UmmaProblem& problem, int64_t m,
                               int64_t n);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_UMMA_H_
