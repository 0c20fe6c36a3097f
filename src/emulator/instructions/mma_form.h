// Describes the modifiers of an mma.sync, and how a warp's registers hold its matrices.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_MMA_FORM_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_MMA_FORM_H_

#include "emulator/core/decoder.h"
#include "emulator/numerics/matrix_multiplier.h"
#include "emulator/numerics/sparsity.h"

namespace tilelang::emulator {

struct Place {
  int row;
  int column;
};

// Says how registers hold a matrix: PTX ISA, "Matrix Fragments for mma.*". The m8n8k4 of f16 is
// four multiplications, one for each quad pair (lanes 4q to 4q+3 and 16+4q to 16+4q+3). The rows of
// A and D and the columns of B are the rows and columns of all four, eight for each.
enum class FragmentLayout : uint8_t {
  kA,
  kB,
  kD,
  kQuadARow,
  kQuadAColumn,
  kQuadBRow,
  kQuadBColumn,
  kQuadD16,
  kQuadD32,
};

struct Fragment {
  FragmentLayout layout = FragmentLayout::kA;
  int rows = 0;
  int columns = 0;
  int bits = 0;  // of a container

  int per_register() const { return bits == 64 ? 1 : 32 / bits; }
  int registers() const { return rows * columns / 32 / per_register(); }
  // The place of element `i` of a lane, counted through its registers from their low bits on.
  Place At(int lane, int i) const;
};

enum class MmaKind : uint8_t { kTensor, kDouble, kQuads };

// The sparsity of A: mma, mma.sp, mma.sp::ordered_metadata.
enum class MmaSparsity : uint8_t { kDense, kSparse, kOrdered };

// The metadata of a sparse A, and the register that holds it.
struct SparseOperand {
  SparsePattern pattern = SparsePattern::kDense;
  IndexOrder order = IndexOrder::kAny;
  WarpMetadata metadata;
  uint32_t slot = 0;
};

// `stored` elements of so many bits are a row of A.
SparseOperand SparseOperandOf(MmaSparsity sparsity, int element_bits, int stored);
// Operands `index` and the next: the register of metadata and the selector.
void TakeMetadata(Decoder& d, size_t index, SparseOperand& sparse);

struct MmaForm {
  MmaKind kind = MmaKind::kTensor;
  MultiplierShape shape;  // as the multiplier is started; its types may differ from the types below
  MatrixType a_type = MatrixType::kF16;
  MatrixType b_type = MatrixType::kF16;
  AccumulatorType c_type = AccumulatorType::kF32;
  // From sm_90 on, but for sm_120, e4m3 and e5m2 are converted to f16 and multiplied in two halves,
  // to whose sum C is added: one half takes the first two of each four elements along K, the other
  // the last two. As ptxas 13 has it.
  bool through_f16 = false;
  SparseOperand sparse;
  Fragment a, b, c, d;
};

// Op::flags of an mma whose extra data is an MmaForm.
constexpr uint16_t kHasMmaForm = 1;

// Takes the modifiers; EmulatorError for what does not exist.
MmaForm TakeMmaForm(Decoder& d, MmaSparsity sparsity);

// Returns whether the instruction has .kind::, as instructions with types below eight bits and with
// scale factors do.
bool HasMmaKind(const Decoder& d);
void DecodeMmaOfKind(Decoder& d, MmaSparsity sparsity);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_MMA_FORM_H_
