#include "emulator/async/tcgen05_descriptor.h"

#include <array>
#include <cstdio>

#include "emulator/core/error.h"

namespace tilelang::emulator {
namespace {

[[noreturn]] void Illegal(const std::string& message) {
  throw EmulatorError("descriptor", message);
}

std::string Hex(uint64_t bits, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%0*llX", digits, static_cast<unsigned long long>(bits));
  return text;
}

uint32_t Field(uint64_t bits, int low, int width) {
  return static_cast<uint32_t>(bits >> low) & ((1u << width) - 1);
}

Swizzle ParseSwizzle(uint32_t code, const std::string& where) {
  switch (code) {
    case 0:
      return Swizzle::kNone;
    case 1:
      return Swizzle::k128BAtom32B;
    case 2:
      return Swizzle::k128B;
    case 4:
      return Swizzle::k64B;
    case 6:
      return Swizzle::k32B;
    default:
      Illegal(where + ": swizzle code " + std::to_string(code) +
              " (bits 63:61) is invalid; legal are 0, 1, 2, 4 and 6");
  }
}

uint32_t MnMajorOffset(const SmemDescriptor& d, uint32_t row_byte, uint32_t k) {
  if (d.swizzle == Swizzle::kNone) {
    return (row_byte / 16) * d.stride_offset + (k % 8) * 16 + (k / 8) * d.leading_offset;
  }
  const uint32_t width = SwizzleWidth(d.swizzle);
  const uint32_t lines = d.swizzle == Swizzle::k128BAtom32B ? 4 : 8;
  return row_byte % width + (row_byte / width) * d.leading_offset + (k % lines) * width +
         (k / lines) * d.stride_offset;
}

struct TypeCode {
  MmaKind kind;
  uint32_t code;
  MatrixType type;
};

constexpr std::array<TypeCode, 10> kTypeCodes = {{
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
}};

MatrixType ParseType(MmaKind kind, uint32_t code, const char* operand, const std::string& where) {
  for (const TypeCode& entry : kTypeCodes) {
    if (entry.kind == kind && entry.code == code) return entry.type;
  }
  Illegal(where + ": type code " + std::to_string(code) + " of " + operand +
          " does not exist for kind::" + MmaKindName(kind));
}

AccumulatorType ParseAccumulator(const InstructionDescriptor& d, uint32_t code,
                                 const std::string& where) {
  const bool legal_f16 =
      d.kind == MmaKind::kF8f6f4 || (d.a_type == MatrixType::kF16 && d.b_type == MatrixType::kF16);
  if (code == 0 && legal_f16) return AccumulatorType::kF16;
  if (code == 1 && d.kind != MmaKind::kI8) return AccumulatorType::kF32;
  if (code == 2 && d.kind == MmaKind::kI8) return AccumulatorType::kS32;
  Illegal(where + ": D type code " + std::to_string(code) +
          " (bits 5:4) is illegal for kind::" + MmaKindName(d.kind) + " of " +
          MatrixTypeName(d.a_type) + " x " + MatrixTypeName(d.b_type));
}

void CheckShape(const InstructionDescriptor& d, const std::string& where) {
  const std::string shape = where + ": shape M=" + std::to_string(d.m) +
                            ", N=" + std::to_string(d.n) +
                            " is illegal for kind::" + MmaKindName(d.kind);
  if (d.weight_stationary) {
    const bool m_ok = d.m == 32 || d.m == 64 || d.m == 128;
    if (!m_ok || (d.n != 64 && d.n != 128 && d.n != 256)) {
      Illegal(shape + " with .ws: M is 32, 64 or 128, N is 64, 128 or 256");
    }
    return;
  }
  if (d.m != 64 && d.m != 128) Illegal(shape + " with cta_group::1: M is 64 or 128");
  const int step = d.kind == MmaKind::kI8 && d.n > 32 ? 16 : 8;
  if (d.n < 8 || d.n > 256 || d.n % step != 0) {
    Illegal(shape + ": N is a multiple of " + std::to_string(step) + " in 8..256");
  }
  const bool bytes = ContainerBytes(d.b_type) == 1;
  if (bytes && d.b_major == MajorMode::kMn && d.n % 16 != 0) {
    Illegal(shape + " with an MN-major 8-bit B: N must be a multiple of 16");
  }
}

void CheckTranspose(MatrixType type, MajorMode major, const char* operand,
                    const std::string& where) {
  const bool sub_byte =
      type == MatrixType::kE2m3 || type == MatrixType::kE3m2 || type == MatrixType::kE2m1;
  if (major == MajorMode::kMn && sub_byte) {
    Illegal(where + ": " + operand + " of type " + MatrixTypeName(type) +
            " cannot be MN-major (transposed)");
  }
}

}  // namespace

const char* MmaKindName(MmaKind kind) {
  constexpr std::array<const char*, 4> kNames = {"f16", "tf32", "f8f6f4", "i8"};
  return kNames[static_cast<int>(kind)];
}

SmemDescriptor SmemDescriptor::Parse(uint64_t bits, const char* operand) {
  const std::string where = std::string("descriptor ") + Hex(bits, 16) + " of " + operand;
  if (Field(bits, 14, 2) || Field(bits, 30, 2) || Field(bits, 53, 8)) {
    Illegal(where + ": reserved bits (15:14, 31:30, 60:53) must be zero");
  }
  if (Field(bits, 52, 1)) {
    Illegal(where + ": absolute leading offset (bit 52) does not exist on sm_100a");
  }
  SmemDescriptor d;
  d.start = Field(bits, 0, 14) << 4;
  d.leading_offset = Field(bits, 16, 14) << 4;
  d.stride_offset = Field(bits, 32, 14) << 4;
  d.swizzle = ParseSwizzle(Field(bits, 61, 3), where);
  d.base_offset = Field(bits, 49, 3);
  if (d.base_offset != 0 && d.swizzle == Swizzle::kNone) {
    Illegal(where + ": base offset " + std::to_string(d.base_offset) +
            " (bits 51:49) needs a swizzle, whose pattern it places");
  }
  if (Field(bits, 46, 3) != 1) {
    d.warning = where + ": bits 48:46 are " + std::to_string(Field(bits, 46, 3)) +
                ", the PTX ISA asks for 1";
  } else if ((d.start - d.PatternStart()) % SwizzleRepeat(d.swizzle) >=
             static_cast<uint32_t>(SwizzleWidth(d.swizzle))) {
    d.warning = where + ": start " + Hex(d.start, 5) + " is not in the first line of a " +
                std::to_string(SwizzleRepeat(d.swizzle)) +
                "-byte swizzle pattern with base offset " + std::to_string(d.base_offset);
  }
  return d;
}

uint32_t SmemDescriptor::AddressOf(uint32_t offset) const {
  // The swizzle takes its row from the address within the pattern, not from the address itself.
  return SwizzleAddress(swizzle, start + offset - PatternStart()) + PatternStart();
}

std::vector<uint32_t> RowUnits(const SmemDescriptor& d, int rows, int units) {
  std::vector<uint32_t> addresses(static_cast<size_t>(rows) * units);
  const uint32_t pitch = SwizzleWidth(d.swizzle);
  const uint32_t step = d.swizzle == Swizzle::kNone ? d.leading_offset : 16;
  for (int row = 0; row < rows; ++row) {
    for (int u = 0; u < units; ++u) {
      const uint32_t offset = (row % 8) * pitch + (row / 8) * d.stride_offset + u * step;
      addresses[row * units + u] = d.AddressOf(offset);
    }
  }
  return addresses;
}

std::vector<uint32_t> OperandUnits(const SmemDescriptor& d, MajorMode major, int rows, int depth,
                                   int element_bytes) {
  if (major == MajorMode::kK) return RowUnits(d, rows, 2);
  const int groups = rows * element_bytes / 16;
  std::vector<uint32_t> units(static_cast<size_t>(depth) * groups);
  for (int k = 0; k < depth; ++k) {
    for (int g = 0; g < groups; ++g) {
      units[k * groups + g] = d.AddressOf(MnMajorOffset(d, g * 16, k));
    }
  }
  return units;
}

InstructionDescriptor InstructionDescriptor::Parse(uint32_t bits, MmaKind kind,
                                                   bool weight_stationary) {
  const std::string where = "instruction descriptor " + Hex(bits, 8);
  if (Field(bits, 2, 1)) {
    throw EmulatorError("unsupported", where + ": sparse operands (bit 2)");
  }
  InstructionDescriptor d;
  d.kind = kind;
  d.weight_stationary = weight_stationary;
  d.a_type = ParseType(kind, Field(bits, 7, 3), "A", where);
  d.b_type = ParseType(kind, Field(bits, 10, 3), "B", where);
  d.d_type = ParseAccumulator(d, Field(bits, 4, 2), where);
  d.saturate = Field(bits, 3, 1);
  d.negate_a = Field(bits, 13, 1);
  d.negate_b = Field(bits, 14, 1);
  d.a_major = Field(bits, 15, 1) ? MajorMode::kMn : MajorMode::kK;
  d.b_major = Field(bits, 16, 1) ? MajorMode::kMn : MajorMode::kK;
  d.n = static_cast<int>(Field(bits, 17, 6)) * 8;
  d.m = static_cast<int>(Field(bits, 24, 5)) * 16;
  if (Field(bits, 0, 2) || Field(bits, 6, 1) || Field(bits, 23, 1) || Field(bits, 29, 1)) {
    Illegal(where + ": reserved bits (1:0 of a dense form, 6, 23, 29) must be zero");
  }
  if (!weight_stationary && Field(bits, 30, 2)) {
    Illegal(where + ": bits 31:30 (maximum shift) are for tcgen05.mma.ws only");
  }
  if (const uint32_t shift = Field(bits, 30, 2)) d.max_shift = 4 << shift;
  if (d.saturate && kind != MmaKind::kI8)
    Illegal(where + ": saturate (bit 3) is for kind::i8 only");
  if (kind == MmaKind::kI8 && (d.negate_a || d.negate_b)) {
    Illegal(where + ": negate (bits 13, 14) does not exist for kind::i8");
  }
  CheckShape(d, where);
  CheckTranspose(d.a_type, d.a_major, "A", where);
  CheckTranspose(d.b_type, d.b_major, "B", where);
  return d;
}

void CheckOperandLayout(const SmemDescriptor& matrix, MajorMode major, MatrixType type,
                        const char* operand) {
  const bool atom32 = matrix.swizzle == Swizzle::k128BAtom32B;
  const bool wants_atom32 = type == MatrixType::kTf32 && major == MajorMode::kMn;
  if (wants_atom32 && !atom32) {
    Illegal(std::string(operand) +
            ": an MN-major tf32 operand needs the 128-byte swizzle with 32-byte atoms (code 1)");
  }
  if (!wants_atom32 && atom32) {
    Illegal(std::string(operand) +
            ": the 128-byte swizzle with 32-byte atoms (code 1) is for MN-major tf32 only");
  }
}

}  // namespace tilelang::emulator
