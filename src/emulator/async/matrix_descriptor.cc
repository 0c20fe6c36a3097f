#include "emulator/async/matrix_descriptor.h"

#include <optional>

#include "emulator/async/descriptor_bits.h"

namespace tilelang::emulator {
namespace {

std::optional<Swizzle> WgmmaSwizzle(uint32_t code) {
  constexpr Swizzle kByCode[] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B, Swizzle::k32B};
  return kByCode[code];
}

std::optional<Swizzle> Tcgen05Swizzle(uint32_t code) {
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
      return std::nullopt;
  }
}

// Parses the fields that only the encoding of tcgen05 has: a constant, an absolute leading offset,
// a third bit of the swizzle.
void ParseTcgen05(uint64_t bits, DescriptorFormat format, const std::string& where,
                  MatrixDescriptor& d) {
  if (DescriptorField(bits, 14, 2) || DescriptorField(bits, 30, 2) ||
      DescriptorField(bits, 53, 8)) {
    IllegalDescriptor(where + ": reserved bits (15:14, 31:30, 60:53) must be zero");
  }
  d.absolute_leading = DescriptorField(bits, 52, 1);
  if (d.absolute_leading && format != DescriptorFormat::kTcgen05K96) {
    IllegalDescriptor(where +
                      ": an absolute leading offset (bit 52) exists on sm_103a, with K = 96");
  }
  const uint32_t code = DescriptorField(bits, 61, 3);
  const auto swizzle = Tcgen05Swizzle(code);
  if (!swizzle) {
    IllegalDescriptor(where + ": swizzle code " + std::to_string(code) +
                      " (bits 63:61) is invalid; legal are 0, 1, 2, 4 and 6");
  }
  d.swizzle = *swizzle;
  if (const uint32_t constant = DescriptorField(bits, 46, 3); constant != 1) {
    d.warning =
        where + ": bits 48:46 are " + std::to_string(constant) + ", but the PTX ISA requires 1";
  }
}

void ParseWgmma(uint64_t bits, const std::string& where, MatrixDescriptor& d) {
  if (DescriptorField(bits, 14, 2) || DescriptorField(bits, 30, 2) ||
      DescriptorField(bits, 46, 3) || DescriptorField(bits, 52, 10)) {
    IllegalDescriptor(where + ": reserved bits (15:14, 31:30, 48:46, 61:52) must be zero");
  }
  d.swizzle = *WgmmaSwizzle(DescriptorField(bits, 62, 2));
}

uint32_t MnMajorOffset(const MatrixDescriptor& d, uint32_t row_byte, uint32_t k) {
  if (d.swizzle == Swizzle::kNone) {
    return (row_byte / 16) * d.stride_offset + (k % 8) * 16 + (k / 8) * d.leading_offset;
  }
  const uint32_t width = SwizzleWidth(d.swizzle);
  const uint32_t lines = d.swizzle == Swizzle::k128BAtom32B ? 4 : 8;
  return row_byte % width + (row_byte / width) * d.leading_offset + (k % lines) * width +
         (k / lines) * d.stride_offset;
}

}  // namespace

MatrixDescriptor MatrixDescriptor::Parse(uint64_t bits, DescriptorFormat format,
                                         const char* operand) {
  const std::string where = std::string("descriptor ") + DescriptorHex(bits, 16) + " of " + operand;
  MatrixDescriptor d;
  if (format == DescriptorFormat::kWgmma) {
    ParseWgmma(bits, where, d);
  } else {
    ParseTcgen05(bits, format, where, d);
  }
  d.start = DescriptorField(bits, 0, 14) << 4;
  d.leading_offset = DescriptorField(bits, 16, 14) << 4;
  d.stride_offset = DescriptorField(bits, 32, 14) << 4;
  // A base offset places the swizzle's pattern; without a swizzle there is nothing to place.
  if (d.swizzle != Swizzle::kNone) d.base_offset = DescriptorField(bits, 49, 3);
  if (d.warning.empty() && (d.start - d.PatternStart()) % SwizzleRepeat(d.swizzle) >=
                               static_cast<uint32_t>(SwizzleWidth(d.swizzle))) {
    d.warning = where + ": start " + DescriptorHex(d.start, 5) + " is not in the first line of a " +
                std::to_string(SwizzleRepeat(d.swizzle)) +
                "-byte swizzle pattern with base offset " + std::to_string(d.base_offset);
  }
  return d;
}

uint32_t MatrixDescriptor::AddressOf(uint32_t offset) const {
  // The swizzle takes its row from the address within the pattern, not from the address itself.
  return SwizzleAddress(swizzle, start + offset - PatternStart()) + PatternStart();
}

std::vector<uint32_t> RowUnits(const MatrixDescriptor& d, int rows, int units) {
  std::vector<uint32_t> addresses(static_cast<size_t>(rows) * units);
  const bool swizzled = d.swizzle != Swizzle::kNone;
  const uint32_t pitch = SwizzleWidth(d.swizzle);
  const uint32_t step = swizzled ? 16 : d.leading_offset;
  const uint32_t first = (d.start - d.PatternStart()) % pitch;  // in its line of the pattern
  const bool runs_over = swizzled && first + units * step > pitch;
  if (runs_over && units * step % 32 != 0 && !d.absolute_leading) {
    IllegalDescriptor("rows of " + std::to_string(units * step) + " bytes from byte " +
                      std::to_string(first) + " of the swizzle's " + std::to_string(pitch) +
                      " on go on in the next buffer: its address is an absolute leading offset "
                      "(bit 52)");
  }
  MatrixDescriptor next = d;
  next.start = d.leading_offset;
  for (int row = 0; row < rows; ++row) {
    const uint32_t line = (row % 8) * pitch + (row / 8) * d.stride_offset;
    for (int u = 0; u < units; ++u) {
      const bool beyond = d.absolute_leading && swizzled && first + u * step >= pitch;
      addresses[row * units + u] =
          beyond ? next.AddressOf(line + first + u * step - pitch) : d.AddressOf(line + u * step);
    }
  }
  return addresses;
}

std::vector<uint32_t> OperandUnits(const MatrixDescriptor& d, MajorMode major, int rows, int depth,
                                   int element_bytes, int k_units) {
  if (major == MajorMode::kK) {
    if (d.swizzle != Swizzle::kNone && SwizzleWidth(d.swizzle) < 16 * k_units) {
      throw EmulatorError("unsupported", "rows of " + std::to_string(16 * k_units) +
                                             " bytes along K, which are longer than a " +
                                             std::to_string(SwizzleWidth(d.swizzle)) +
                                             "-byte swizzle");
    }
    return RowUnits(d, rows, k_units);
  }
  const int groups = rows * element_bytes / 16;
  std::vector<uint32_t> units(static_cast<size_t>(depth) * groups);
  for (int k = 0; k < depth; ++k) {
    for (int g = 0; g < groups; ++g) {
      units[k * groups + g] = d.AddressOf(MnMajorOffset(d, g * 16, k));
    }
  }
  return units;
}

}  // namespace tilelang::emulator
