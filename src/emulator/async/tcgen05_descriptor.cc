#include "emulator/async/tcgen05_descriptor.h"

#include <array>
#include <string>

#include "emulator/async/descriptor_bits.h"

namespace tilelang::emulator {
namespace {

struct TypeCode {
  MmaKind kind;
  uint32_t code;
  MatrixType type;
};

constexpr std::array<TypeCode, 17> kTypeCodes = {{
    {MmaKind::kF16, 0, MatrixType::kF16},
    {MmaKind::kF16, 1, MatrixType::kBf16},
    {MmaKind::kTf32, 2, MatrixType::kTf32},
    {MmaKind::kF8f6f4, 0, MatrixType::kE4m3},
    {MmaKind::kF8f6f4, 1, MatrixType::kE5m2},
    {MmaKind::kF8f6f4, 3, MatrixType::kE2m3},
    {MmaKind::kF8f6f4, 4, MatrixType::kE3m2},
    {MmaKind::kF8f6f4, 5, MatrixType::kE2m1},
    {MmaKind::kI8, 0, MatrixType::kU8},
    {MmaKind::kI8, 1, MatrixType::kS8},
    {MmaKind::kMxf8f6f4, 0, MatrixType::kE4m3},
    {MmaKind::kMxf8f6f4, 1, MatrixType::kE5m2},
    {MmaKind::kMxf8f6f4, 3, MatrixType::kE2m3},
    {MmaKind::kMxf8f6f4, 4, MatrixType::kE3m2},
    {MmaKind::kMxf8f6f4, 5, MatrixType::kE2m1},
    {MmaKind::kMxf4, 1, MatrixType::kE2m1},
    {MmaKind::kMxf4nvf4, 1, MatrixType::kE2m1},
}};

MatrixType ParseType(MmaKind kind, uint32_t code, const char* operand, const std::string& where) {
  for (const TypeCode& entry : kTypeCodes) {
    if (entry.kind == kind && entry.code == code) return entry.type;
  }
  IllegalDescriptor(where + ": type code " + std::to_string(code) + " of " + operand +
                    " does not exist for kind::" + MmaKindName(kind));
}

AccumulatorType ParseAccumulator(const InstructionDescriptor& d, uint32_t code,
                                 const std::string& where) {
  const bool legal_f16 =
      d.kind == MmaKind::kF8f6f4 || (d.a_type == MatrixType::kF16 && d.b_type == MatrixType::kF16);
  if (code == 0 && legal_f16) return AccumulatorType::kF16;
  if (code == 1 && d.kind != MmaKind::kI8) return AccumulatorType::kF32;
  if (code == 2 && d.kind == MmaKind::kI8) return AccumulatorType::kS32;
  IllegalDescriptor(where + ": D type code " + std::to_string(code) +
                    " (bits 5:4) is illegal for kind::" + MmaKindName(d.kind) + " of " +
                    MatrixTypeName(d.a_type) + " x " + MatrixTypeName(d.b_type));
}

void CheckShape(const InstructionDescriptor& d, const std::string& where) {
  const std::string shape = where + ": shape M=" + std::to_string(d.m) +
                            ", N=" + std::to_string(d.n) +
                            " is illegal for kind::" + MmaKindName(d.kind);
  if (d.weight_stationary) {
    const bool m_ok = d.m == 32 || d.m == 64 || d.m == 128;
    if (!m_ok || (d.n != 64 && d.n != 128 && (d.n != 256 || d.sparse))) {
      IllegalDescriptor(shape + " with .ws: M is 32, 64 or 128, N is 64" +
                        (d.sparse ? " or 128" : ", 128 or 256"));
    }
    return;
  }
  const int ctas = d.ctas();
  if (IsBlockScaled(d.kind) && d.sparse && d.pair && d.m != 256) {
    IllegalDescriptor(shape + " with .sp and cta_group::2: M is 256");
  }
  if (IsBlockScaled(d.kind) ? d.m != 128 && (d.m != 256 || !d.pair)
                            : d.m != 64 * ctas && d.m != 128 * ctas) {
    const std::string least =
        IsBlockScaled(d.kind) && !d.pair
            ? ""
            : std::to_string(IsBlockScaled(d.kind) ? 128 : 64 * ctas) + " or ";
    IllegalDescriptor(shape + " with cta_group::" + std::to_string(ctas) + ": M is " + least +
                      std::to_string(128 * ctas));
  }
  const bool wide = d.kind == MmaKind::kI8 && (d.pair || d.n > 32);
  const int step = d.depth == kLongDepth ? 16 : (wide ? 16 : 8) * ctas;
  const int least = d.depth == kLongDepth ? 16 : 8 * ctas * (wide && d.pair ? 2 : 1);
  if (d.n < least || d.n > 256 || d.n % step != 0) {
    IllegalDescriptor(shape + ": N is a multiple of " + std::to_string(step) + " in " +
                      std::to_string(least) + "..256");
  }
  const bool bytes = ContainerBytes(d.b_type) == 1;
  if (bytes && d.b_major == MajorMode::kMn && d.n % (16 * ctas) != 0) {
    IllegalDescriptor(shape + " with an MN-major 8-bit B: N must be a multiple of " +
                      std::to_string(16 * ctas));
  }
}

void ParseSparsity(uint32_t bits, bool sparse, const std::string& where, InstructionDescriptor& d) {
  if (DescriptorField(bits, 2, 1) != sparse) {
    IllegalDescriptor(where + (sparse ? ": bit 2 (sparse) must be set for tcgen05.mma.sp"
                                      : ": bit 2 (sparse) is for tcgen05.mma.sp only"));
  }
  d.sparse = sparse;
  d.selector = static_cast<int>(DescriptorField(bits, 0, 2));
  const bool has_selector = sparse && (d.kind == MmaKind::kF16 || d.kind == MmaKind::kTf32);
  if (d.selector <= (has_selector ? 1 : 0)) return;
  IllegalDescriptor(where + ": the sparsity selector (bits 1:0) is " + std::to_string(d.selector) +
                    (has_selector ? ", not 0 or 1"
                     : sparse ? ", which must be 0 for kind::" + std::string(MmaKindName(d.kind))
                              : ", but only tcgen05.mma.sp has one"));
}

void CheckTranspose(MatrixType type, MajorMode major, const char* operand,
                    const std::string& where) {
  const bool sub_byte =
      type == MatrixType::kE2m3 || type == MatrixType::kE3m2 || type == MatrixType::kE2m1;
  if (major == MajorMode::kMn && sub_byte) {
    IllegalDescriptor(where + ": " + operand + " of type " + MatrixTypeName(type) +
                      " cannot be MN-major (transposed)");
  }
}

}  // namespace

const char* MmaKindName(MmaKind kind) {
  constexpr std::array<const char*, 7> kNames = {"f16",      "tf32", "f8f6f4",  "i8",
                                                 "mxf8f6f4", "mxf4", "mxf4nvf4"};
  return kNames[static_cast<int>(kind)];
}

InstructionDescriptor InstructionDescriptor::Parse(uint32_t bits, MmaKind kind,
                                                   bool weight_stationary, bool pair, bool sparse) {
  const std::string where = "instruction descriptor " + DescriptorHex(bits, 8);
  InstructionDescriptor d;
  d.kind = kind;
  d.depth = MmaDepth(kind);
  ParseSparsity(bits, sparse, where, d);
  d.weight_stationary = weight_stationary;
  d.pair = pair;
  d.a_type = ParseType(kind, DescriptorField(bits, 7, 3), "A", where);
  d.b_type = ParseType(kind, DescriptorField(bits, 10, 3), "B", where);
  d.d_type = ParseAccumulator(d, DescriptorField(bits, 4, 2), where);
  d.saturate = DescriptorField(bits, 3, 1);
  d.negate_a = DescriptorField(bits, 13, 1);
  d.negate_b = DescriptorField(bits, 14, 1);
  d.a_major = DescriptorField(bits, 15, 1) ? MajorMode::kMn : MajorMode::kK;
  d.b_major = DescriptorField(bits, 16, 1) ? MajorMode::kMn : MajorMode::kK;
  d.n = static_cast<int>(DescriptorField(bits, 17, 6)) * 8;
  d.m = static_cast<int>(DescriptorField(bits, 24, 5)) * 16;
  if (DescriptorField(bits, 6, 1) || DescriptorField(bits, 23, 1) || DescriptorField(bits, 29, 1)) {
    IllegalDescriptor(where + ": reserved bits (6, 23, 29) must be zero");
  }
  if (!weight_stationary && DescriptorField(bits, 30, 2)) {
    IllegalDescriptor(where + ": bits 31:30 (maximum shift) are for tcgen05.mma.ws only");
  }
  if (const uint32_t shift = DescriptorField(bits, 30, 2)) d.max_shift = 4 << shift;
  if (d.saturate && kind != MmaKind::kI8)
    IllegalDescriptor(where + ": saturate (bit 3) is for kind::i8 only");
  if (kind == MmaKind::kI8 && (d.negate_a || d.negate_b)) {
    IllegalDescriptor(where + ": negate (bits 13, 14) does not exist for kind::i8");
  }
  CheckShape(d, where);
  CheckTranspose(d.a_type, d.a_major, "A", where);
  CheckTranspose(d.b_type, d.b_major, "B", where);
  return d;
}

namespace {

// The bytes of a cell from which a row's scale factors may start.
void CheckScaleId(int id, int count, const char* name, const std::string& where) {
  const int step = count == 1 || count == 3 ? 1 : count == 4 ? 4 : 2;
  if (id % step == 0) return;
  IllegalDescriptor(where + ": " + name + " id " + std::to_string(id) + " with " +
                    std::to_string(count) + " scale factors a row: legal " +
                    (step == 4 ? "is 0" : "are 0 and 2"));
}

}  // namespace

InstructionDescriptor InstructionDescriptor::ParseScaled(uint32_t bits, MmaKind kind, int block,
                                                         bool pair, bool sparse, bool long_k) {
  const std::string where = "instruction descriptor " + DescriptorHex(bits, 8);
  const bool fp4 = IsFp4(kind);
  const bool is_long = fp4 && DescriptorField(bits, 31, 1);
  if (is_long && (sparse || !long_k)) {
    IllegalDescriptor(where + ": K = 96 (bit 31) exists on sm_103a, for a dense A");
  }
  if (DescriptorField(bits, 3, 1) || DescriptorField(bits, 6, 1) || DescriptorField(bits, 24, 3) ||
      (!fp4 && DescriptorField(bits, 31, 1)) || (fp4 && DescriptorField(bits, 15, 2))) {
    IllegalDescriptor(where + ": reserved bits (3, 6, 26:24" +
                      (fp4 ? ", 15 and 16 of kind::" + std::string(MmaKindName(kind)) : ", 31") +
                      ") must be zero");
  }
  InstructionDescriptor d;
  d.kind = kind;
  d.depth = is_long ? kLongDepth : MmaDepth(kind);
  d.pair = pair;
  ParseSparsity(bits, sparse, where, d);
  d.a_type = ParseType(kind, DescriptorField(bits, 7, 3), "A", where);
  d.b_type = ParseType(kind, DescriptorField(bits, 10, 3), "B", where);
  d.negate_a = DescriptorField(bits, 13, 1);
  d.negate_b = DescriptorField(bits, 14, 1);
  d.a_major = DescriptorField(bits, 15, 1) ? MajorMode::kMn : MajorMode::kK;
  d.b_major = DescriptorField(bits, 16, 1) ? MajorMode::kMn : MajorMode::kK;
  d.n = static_cast<int>(DescriptorField(bits, 17, 6)) * 8;
  d.m = static_cast<int>(DescriptorField(bits, 27, 2)) * 128;
  d.scale_type = DescriptorField(bits, 23, 1) ? ScaleType::kUe8m0 : ScaleType::kUe4m3;
  d.scale_count = d.depth / block;
  d.scale_a_id = static_cast<int>(DescriptorField(bits, 29, 2));
  d.scale_b_id = static_cast<int>(DescriptorField(bits, 4, 2));
  if (d.scale_type == ScaleType::kUe4m3 && block != 16) {
    IllegalDescriptor(where + ": scale factors of ue4m3 (bit 23) are for blocks of 16 only");
  }
  CheckScaleId(d.scale_a_id, d.scale_count, "SFA", where);
  CheckScaleId(d.scale_b_id, d.scale_count, "SFB", where);
  CheckShape(d, where);
  CheckTranspose(d.a_type, d.a_major, "A", where);
  CheckTranspose(d.b_type, d.b_major, "B", where);
  return d;
}

void CheckOperandLayout(const MatrixDescriptor& matrix, MajorMode major, MatrixType type,
                        const char* operand) {
  const bool atom32 = matrix.swizzle == Swizzle::k128BAtom32B;
  const bool wants_atom32 = type == MatrixType::kTf32 && major == MajorMode::kMn;
  if (wants_atom32 && !atom32) {
    IllegalDescriptor(
        std::string(operand) +
        ": an MN-major tf32 operand needs the 128-byte swizzle with 32-byte atoms (code 1)");
  }
  if (!wants_atom32 && atom32) {
    IllegalDescriptor(
        std::string(operand) +
        ": the 128-byte swizzle with 32-byte atoms (code 1) is for MN-major tf32 only");
  }
}

}  // namespace tilelang::emulator
