#include "emulator/async/matrix_operand.h"

#include <cstring>
#include <string>

namespace tilelang::emulator {

uint32_t UnitElement(MatrixType type, const uint8_t* unit, int i) {
  if (type == MatrixType::kE2m1) return (unit[i / 2] >> (4 * (i % 2))) & 0xF;
  if (type == MatrixType::kE2m3 || type == MatrixType::kE3m2) {
    const int bit = 6 * i;
    const uint32_t pair = unit[bit / 8] | (static_cast<uint32_t>(unit[bit / 8 + 1]) << 8);
    return (pair >> (bit % 8)) & 0x3F;
  }
  uint32_t bits = 0;
  const int bytes = ContainerBytes(type);
  std::memcpy(&bits, unit + i * bytes, bytes);
  return bits;
}

void CheckUnits(const Cta& cta, const Issuer& issuer, const std::vector<uint32_t>& units,
                const char* what) {
  for (uint32_t unit : units) {
    if (cta.shared.Contains(unit, kUnitBytes)) continue;
    Fail(issuer, "out-of-bounds",
         std::string(what) + " reaches outside of the CTA's shared memory, which ends at " +
             std::to_string(cta.shared.size()),
         unit, "shared memory");
  }
}

int DataBytes(MatrixType type) {
  if (type == MatrixType::kE2m1) return 8;
  return type == MatrixType::kE2m3 || type == MatrixType::kE3m2 ? 12 : kUnitBytes;
}

void WarnUninitialised(const Cta& cta, const Issuer& issuer, const std::vector<uint32_t>& units,
                       int bytes) {
  for (uint32_t unit : units) {
    if (cta.shared.IsWritten(unit, static_cast<uint32_t>(bytes))) continue;
    WarnShared(issuer, "the tensor core reads shared memory that nothing has written", unit);
    return;
  }
}

}  // namespace tilelang::emulator
