// Operands of the tensor core in shared memory: their elements, and what is checked before and when
// an instruction reads them.
#ifndef TILELANG_EMULATOR_ASYNC_MATRIX_OPERAND_H_
#define TILELANG_EMULATOR_ASYNC_MATRIX_OPERAND_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "emulator/async/matrix_descriptor.h"
#include "emulator/core/machine.h"
#include "emulator/numerics/tensor_core.h"

namespace tilelang::emulator {

constexpr int kUnitBytes = 16;

// Bits of element `i` of a 16-byte unit of shared memory. Types of fewer than eight bits are packed
// at the start of the unit, as the padded TMA types deliver them.
uint32_t UnitElement(MatrixType type, const uint8_t* unit, int i);

// An element of an operand where it lies: the index counts elements from `bytes` on.
struct OperandElement {
  // How elements are packed: one in a unit; two elements of four bits in a byte, the even one low;
  // or in containers of tensor memory, whose four bits are in the middle of their byte (bits 5:2,
  // by the PTX ISA's figures).
  enum class Packing : uint8_t { kUnit, kNibbles, kContainers };
  const uint8_t* bytes = nullptr;  // nullptr: zero
  int index = 0;
  Packing packing = Packing::kUnit;

  uint32_t Bits(MatrixType type) const {
    if (packing == Packing::kNibbles) {
      return static_cast<uint32_t>(bytes[index / 2]) >> (4 * (index % 2)) & 0xF;
    }
    if (packing == Packing::kUnit) return UnitElement(type, bytes, index);
    uint32_t bits = 0;
    const int size = ContainerBytes(type);
    std::memcpy(&bits, bytes + index * size, static_cast<size_t>(size));
    return type == MatrixType::kE2m1 ? (bits >> 2) & 0xF : bits;
  }
};

// Calls put(row, k, element) for every element of an operand whose units OperandUnits gave.
// `shared` points at offset 0 of the CTA's window.
template <typename Put>
void VisitOperand(const std::vector<uint32_t>& units, MajorMode major, MatrixType type, int rows,
                  int depth, const uint8_t* shared, Put put) {
  const int per_unit = kUnitBytes / ContainerBytes(type);
  if (major == MajorMode::kK) {
    const int k_units = depth / per_unit;
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < depth; ++k) {
        const uint8_t* unit = shared + units[row * k_units + k / per_unit];
        put(row, k, OperandElement{unit, k % per_unit});
      }
    }
    return;
  }
  const int groups = rows / per_unit;
  for (int k = 0; k < depth; ++k) {
    for (int row = 0; row < rows; ++row) {
      const uint8_t* unit = shared + units[k * groups + row / per_unit];
      put(row, k, OperandElement{unit, row % per_unit});
    }
  }
}

// The same of a K-major operand with two elements of four bits in a byte.
template <typename Put>
void VisitNibbles(const std::vector<uint32_t>& units, int rows, int depth, const uint8_t* shared,
                  Put put) {
  constexpr int kPerUnit = 2 * kUnitBytes;
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < depth; ++k) {
      const uint8_t* unit = shared + units[row * (depth / kPerUnit) + k / kPerUnit];
      put(row, k, OperandElement{unit, k % kPerUnit, OperandElement::Packing::kNibbles});
    }
  }
}

// Fails unless all units lie in the CTA's shared memory. `what` names instruction and operand.
void CheckUnits(const Cta& cta, const Issuer& issuer, const std::vector<uint32_t>& units,
                const char* what);

// Bytes of a unit that hold elements; behind packed ones of four and six bits there is a pad.
int DataBytes(MatrixType type);

// Warns when one of the first `bytes` bytes of a unit is one that nothing has written.
void WarnUninitialised(const Cta& cta, const Issuer& issuer, const std::vector<uint32_t>& units,
                       int bytes = kUnitBytes);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_MATRIX_OPERAND_H_
