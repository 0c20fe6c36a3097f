// Arithmetic of the tensor core: one fused sum of exact products per output and instruction.
#ifndef TILELANG_EMULATOR_NUMERICS_TENSOR_CORE_H_
#define TILELANG_EMULATOR_NUMERICS_TENSOR_CORE_H_

#include <cstdint>
#include <vector>

namespace tilelang::emulator {

// Element types of matrix operands.
enum class MatrixType : uint8_t {
  kF16,
  kBf16,
  kTf32,
  kE4m3,
  kE5m2,
  kE2m3,
  kE3m2,
  kE2m1,
  kS8,
  kU8,
  kB1,  // eight in a container
  kS4,
  kU4,
};

const char* MatrixTypeName(MatrixType type);

enum class AccumulatorType : uint8_t { kF16, kF32, kS32 };

// Bytes of a container. It holds one element, also of types of four and six bits, but eight of b1.
constexpr int ContainerBytes(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 2;
    case MatrixType::kTf32:
      return 4;
    default:
      return 1;
  }
}

constexpr bool IsInteger(MatrixType type) { return type >= MatrixType::kS8; }

// An operand as the multiplier sees it: value = significand * 2^exponent, the significand in
// [1, 2) or, for a subnormal, below 1 with the least exponent of its type. Zeros have an exponent
// too small to matter. Infinities and NaN have a zero significand and are marked in `special`.
//
// The matrix is stored as `outer` lines of `stride` elements, A as lines of one row (k inside) and
// B as lines of one k (columns inside); `stride` is a multiple of kLineBlock, padded with zeros.
struct DecodedMatrix {
  static constexpr int kLineBlock = 32;
  static constexpr int kZeroExponent = -4096;

  int outer = 0;
  int inner = 0;
  int stride = 0;
  std::vector<float> significand;
  std::vector<int32_t> exponent;
  std::vector<float> value;           // the element itself, for the rare special lines
  std::vector<uint8_t> special_line;  // per row of A or column of B: holds an infinity or NaN

  // `special_count` is the number of rows of A or of columns of B.
  void Reset(int outer_count, int inner_count, int special_count);
};

// The value of one element, given the low bits of its container. tf32 drops the low 13 bits.
float DecodeElement(MatrixType type, uint32_t bits);

// Stores `value` of the given type at (outer, inner); `line` is its row of A or column of B.
void StoreElement(DecodedMatrix& matrix, MatrixType type, int outer, int inner, int line,
                  float value);

// Says how terms are added. They keep `fraction_bits` (at most 25) below the largest exponent, the
// accumulator enters as c * 2^-c_shift, and an f32 result keeps `result_bits` of its 23 fraction
// bits. `sum_bytes` of a row of A are one sum, which is the accumulator of the next one; 0 stands
// for all k.
struct FusedSumOptions {
  int fraction_bits = 25;
  int c_shift = 0;
  int result_bits = 23;
  int sum_bytes = 0;
};

// The units whose arithmetic is known. kAmpere and kHopper belong to mma.sync.
enum class TensorCore : uint8_t { kAmpere, kHopper, kHopperWarpgroup, kBlackwell };

// Returns how a unit adds products of elements of `type`. Source: MMA-Sim, arXiv 2511.10909.
FusedSumOptions AccumulationOf(TensorCore unit, MatrixType type);

// One row of outputs: row `row` of A times columns [first_column, first_column + n) of B, over
// [first_k, first_k + k).
struct FusedRowTask {
  const DecodedMatrix* a;
  const DecodedMatrix* b;
  int row;
  int first_column;
  int first_k;
  int k;
  int n;
  FusedSumOptions options;
  // The line of B that each element of the row of A meets, if A is sparse.
  const int32_t* places = nullptr;

  int LineOf(int i) const { return places ? places[i] : i; }
};

// D = A * B + C with the arithmetic of the tensor core: the products and c are aligned to the
// largest exponent, truncated toward zero and added exactly. `c` and `d` have n elements.
//
// To f32 the sum is truncated, overflow gives infinity; to f16 it is rounded to nearest even, where
// every zero is positive (so an H200).
// NaN is 0x7FFFFFFF or 0x7FFF. Source: MMA-Sim, validated there on an H100 and a B200.
void FusedRowToF32(const FusedRowTask& task, const float* c, float* d);
// c holds f16 values; d receives f16 codes.
void FusedRowToF16(const FusedRowTask& task, const float* c, uint16_t* d);

// Computes one row of the integer form: exact products, and a sum that wraps around or saturates to
// s32. `places` are as in FusedRowTask.
void IntegerRow(const int16_t* a, const int16_t* b, int b_stride, int k, int n, bool saturate,
                const int32_t* places, const int32_t* c, int32_t* d);
// The same of b1: a and b hold eight bits each, and their product is the number of bits in both or,
// if `exclusive`, in one of them.
void BinaryRow(const int16_t* a, const int16_t* b, int b_stride, int k, int n, bool exclusive,
               const int32_t* c, int32_t* d);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_NUMERICS_TENSOR_CORE_H_
