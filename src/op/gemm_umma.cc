#include "op/gemm_umma.h"

#include "ir/padded.h"
#include "op/gemm_operands.h"
#include "op/matrix_descriptor.h"

namespace tilelang::op {

using ir::DType;

namespace {

constexpr int64_t kMaxN = 256;  // of an instruction

bool IsHalf(DType t) { return t == ir::dtypes::kFloat16 || t == ir::dtypes::kBFloat16; }
bool IsByte(DType t) { return t == ir::dtypes::kInt8 || t == ir::dtypes::kUInt8; }

// Returns the type code for bits 9:7 (A) and 12:10 (B) of the descriptor.
uint32_t OperandCode(const ir::GemmNode* op, const Region& matrix) {
  if (FormatOfMatrices(op) == ir::GemmFormat::kE2M1x2) return 1;
  if (const ir::SmallFloat* padded = ir::PaddedType(matrix->buffer)) {
    if (padded->bits == 4) return 5;
    return padded->fraction == 3 ? 3 : 4;
  }
  DType t = matrix->buffer->dtype;
  if (t == ir::dtypes::kBFloat16 || t == ir::dtypes::kFloat8E5M2 || t == ir::dtypes::kInt8)
    return 1;
  return t == ir::dtypes::kFloat32 ? 2 : 0;
}

// Returns the type code of the accumulator for bits 5:4.
uint32_t AccumulatorCode(DType t) {
  if (t == ir::dtypes::kFloat32) return 1;
  return t == ir::dtypes::kInt32 ? 2 : 0;
}

}  // namespace

const char* Spelling(UmmaKind kind) {
  switch (kind) {
    case UmmaKind::kF16:
      return "f16";
    case UmmaKind::kTF32:
      return "tf32";
    case UmmaKind::kF8F6F4:
      return "f8f6f4";
    case UmmaKind::kI8:
      return "i8";
    case UmmaKind::kMxF8F6F4:
      return "mxf8f6f4";
    case UmmaKind::kMxF4:
      return "mxf4";
    case UmmaKind::kMxF4NvF4:
      return "mxf4nvf4";
  }
  return "";
}

bool IsBlockScaled(UmmaKind kind) { return kind >= UmmaKind::kMxF8F6F4; }

namespace {

UmmaKindChoice KindOfTypes(DType a, DType b, DType c) {
  bool f32 = c == ir::dtypes::kFloat32;
  bool f16 = c == ir::dtypes::kFloat16;
  if (IsHalf(a) && a == b) {
    if (f32 || (f16 && a == ir::dtypes::kFloat16)) return {UmmaKind::kF16, ""};
    return {std::nullopt, a == ir::dtypes::kFloat16 ? "accumulates in float32 or float16"
                                                    : "accumulates in float32"};
  }
  if (a == ir::dtypes::kFloat32 && a == b) {
    if (f32) return {UmmaKind::kTF32, ""};
    return {std::nullopt, "accumulates in float32"};
  }
  if (ir::IsFloat8(a) && ir::IsFloat8(b)) {
    if (f32 || f16) return {UmmaKind::kF8F6F4, ""};
    return {std::nullopt, "accumulates in float32 or float16"};
  }
  if (IsByte(a) && IsByte(b)) {
    if (c == ir::dtypes::kInt32) return {UmmaKind::kI8, ""};
    return {std::nullopt, "accumulates in int32"};
  }
  return {std::nullopt,
          "is not among the pairs that tcgen05.mma has: float16 or bfloat16 with itself, float32 "
          "(as tf32) with itself, float8 with float8, int8 or uint8 with int8 or uint8"};
}

// Returns the kind of a scaled GEMM. Python has checked the pairs of elements and factors.
UmmaKindChoice ScaledKind(const ir::GemmNode* op) {
  if (MatrixC(op)->buffer->dtype != ir::dtypes::kFloat32) {
    return {std::nullopt, "with scale factors accumulates in float32"};
  }
  if (FormatOfMatrices(op) != ir::GemmFormat::kE2M1x2) return {UmmaKind::kMxF8F6F4, ""};
  bool powers = FormatOfScales(op) == ir::GemmFormat::kUE8M0;
  return {powers ? UmmaKind::kMxF4 : UmmaKind::kMxF4NvF4, ""};
}

}  // namespace

UmmaKindChoice ChooseUmmaKind(const ir::GemmNode* op, const Target& target) {
  if (op->IsScaled()) return ScaledKind(op);
  if (ir::HasPaddedInput(op)) return {UmmaKind::kF8F6F4, ""};  // into float32, by Python
  UmmaKindChoice choice = KindOfTypes(MatrixA(op)->buffer->dtype, MatrixB(op)->buffer->dtype,
                                      MatrixC(op)->buffer->dtype);
  if (choice.kind != UmmaKind::kI8 || target->has_tcgen05_integers) return choice;
  return {std::nullopt, "is not among those of " + std::string(target->arch) + ": it has floats"};
}

int64_t UmmaK(DType operand) { return 32 / ir::Bytes(operand); }

namespace {

// Returns the step in which N of an instruction may grow. PTX ISA, "tcgen05.mma: matrix shapes".
int64_t StepN(const UmmaProblem& p, int64_t m, int64_t n) {
  if (p.b_mn_major && p.b.bits == 8) return 16;
  if (p.kind == UmmaKind::kI8) return n <= 32 ? 8 : 16;
  return p.a_in_tmem && m == 128 ? 16 : 8;
}

bool IsWidth(const UmmaProblem& p, int64_t m, int64_t n) {
  if (p.kind == UmmaKind::kI8 && n == 24) return false;
  return n > 0 && n <= kMaxN && n % StepN(p, m, n) == 0;
}

int64_t RoundUp(int64_t extent, int64_t step) { return (extent + step - 1) / step * step; }

std::string EnlargeTo(const char* name, int64_t extent) {
  return std::string("allocate tiles with ") + name + " = " + std::to_string(extent) +
         ": T.copy(tensor[row, column], tile) fills what lies outside of the tensor with zeros, "
         "and "
         "leaves it out on the way back";
}

// Tiles a pair's GEMM along N: one instruction, since each CTA has half of its columns. PTX ISA,
// "tcgen05.mma: matrix shapes", cta_group::2. With A in tensor memory, N is a multiple of 32, as in
// published kernels.
void TilePairAlongN(const UmmaProblem& p, UmmaTiling* tiling) {
  bool wide = p.kind == UmmaKind::kI8 || p.a_in_tmem || (p.b_mn_major && p.b.bits == 8);
  int64_t step = wide ? 32 : 16;
  tiling->n = p.n;
  if (p.n % step == 0 && p.n <= kMaxN) return;
  tiling->reason = "N of a pair of blocks must be a multiple of " + std::to_string(step) +
                   " up to " + std::to_string(kMaxN);
  tiling->remedy =
      p.n > kMaxN ? "divide N among several gemms, or blocks" : EnlargeTo("N", RoundUp(p.n, step));
}

constexpr int64_t kRowsOfHalfPair = 64;
constexpr int64_t kFewRows = 32;

// Tiles 64 rows of each block of a pair, or 32 rows of a block: one instruction, whose columns lie
// in several groups of lanes.
void TileInLaneGroups(const UmmaProblem& p, UmmaTiling* tiling) {
  tiling->m = p.m;
  tiling->lane_groups = layout::kTmemLanes / p.m;
  if (p.in_pairs) tiling->form.cta_group = 2;
  tiling->form.weight_stationary = !p.in_pairs;
  if (p.a_in_tmem) {
    tiling->reason = std::string("A of ") + std::to_string(p.m) + " rows" +
                     (p.in_pairs ? " a block of a pair" : "") + " must be in shared memory";
    tiling->remedy = "copy it there";
  } else if (p.in_pairs) {
    TilePairAlongN(p, tiling);
  } else if (p.n != 64 && p.n != 128 && p.n != kMaxN) {
    tiling->reason = "N must be 64, 128 or 256 if M is 32";
    tiling->remedy = "allocate tiles with M = 64, or divide N among several gemms";
  }
  tiling->n = p.n;
}

}  // namespace

int64_t WholeUmmaColumns(const UmmaProblem& p) {
  // The width is a multiple of the narrowest instruction, which wider ones are combined with.
  return RoundUp(p.n, StepN(p, p.m % 128 == 0 ? 128 : 64, 8));
}

UmmaTiling TileUmma(const UmmaProblem& p) {
  UmmaTiling tiling;
  tiling.k = p.long_k ? kLongRowBytes : UmmaK(p.b);
  tiling.m = p.m % 128 == 0 ? 128 : 64;
  if ((IsBlockScaled(p.kind) || p.sparse) && p.m % 128 != 0) {
    tiling.reason = std::string("M of a ") + (p.sparse ? "sparse" : "block-scaled") +
                    " gemm must be a multiple of 128";
    tiling.remedy = EnlargeTo("M", RoundUp(p.m, 128));
    return tiling;
  }
  bool few = p.m == kFewRows && !p.in_pairs;
  if (p.in_pairs && p.m % 128 != 0 && p.m != kRowsOfHalfPair) {
    tiling.reason = "M of each block of a pair must be 64 or a multiple of 128";
    tiling.remedy = EnlargeTo("M", p.m < kRowsOfHalfPair ? kRowsOfHalfPair : RoundUp(p.m, 128));
    return tiling;
  }
  if (p.m % 128 != 0 && p.m != kRowsOfHalfPair && !few) {
    tiling.reason = "M must be 32, 64 or a multiple of 128";
    tiling.remedy = EnlargeTo("M", p.m < kRowsOfHalfPair ? kRowsOfHalfPair : RoundUp(p.m, 128));
    bool transposable = p.n == 64 || p.n % 128 == 0;
    if (transposable) tiling.remedy += "; or compute the transposed gemm, whose M is N here";
    return tiling;
  }
  if (p.k % tiling.k != 0) {
    tiling.reason = "K must be a multiple of " + std::to_string(tiling.k);
    tiling.remedy = EnlargeTo("K", RoundUp(p.k, tiling.k));
    return tiling;
  }
  if (few || (p.in_pairs && p.m == kRowsOfHalfPair)) {
    TileInLaneGroups(p, &tiling);
    return tiling;
  }
  if (p.in_pairs) {
    TilePairAlongN(p, &tiling);
    return tiling;
  }
  tiling.n = WidestCover(p.n, p.n_unit, [&](int64_t n) { return IsWidth(p, tiling.m, n); });
  if (tiling.n == 0) {
    tiling.reason = "N must be a multiple of " + std::to_string(StepN(p, tiling.m, 8));
    tiling.remedy = EnlargeTo("N", WholeUmmaColumns(p));
  }
  return tiling;
}

uint32_t InstructionDescriptor(const ir::GemmNode* op, const UmmaProblem& problem, int64_t m,
                               int64_t n) {
  uint32_t descriptor = static_cast<uint32_t>(n >> 3) << 17;
  descriptor |= static_cast<uint32_t>(m >> 4) << 24;
  descriptor |= static_cast<uint32_t>(IsTransposedA(op)) << 15;
  descriptor |= static_cast<uint32_t>(!IsTransposedB(op)) << 16;
  descriptor |= OperandCode(op, MatrixA(op)) << 7;
  descriptor |= OperandCode(op, MatrixB(op)) << 10;
  descriptor |= static_cast<uint32_t>(op->IsSparse()) << 2;
  descriptor |= static_cast<uint32_t>(problem.long_k) << 31;
  if (!IsBlockScaled(problem.kind))
    return descriptor | AccumulatorCode(MatrixC(op)->buffer->dtype) << 4;
  return descriptor | static_cast<uint32_t>(FormatOfScales(op) == ir::GemmFormat::kUE8M0) << 23;
}

}  // namespace tilelang::op
