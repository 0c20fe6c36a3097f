// mma.sync with .kind::: what its modifiers say, and where its scale factors are.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_MMA_KIND_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_MMA_KIND_H_

#include <cstdint>
#include <string>

#include "emulator/core/machine.h"
#include "emulator/instructions/mma_form.h"
#include "emulator/numerics/scaled_multiplier.h"

namespace tilelang::emulator {

// Op::flags of an mma whose extra data is a KindMma.
constexpr uint16_t kHasMmaKind = 2;

constexpr int kScaledRows = 16;
constexpr int kScaledColumns = 8;

// count.
struct ScaleSlots {
  uint32_t word = 0;
  uint32_t byte_id = 0;
  uint32_t thread_id = 0;
};

struct KindMma {
  ScaledShape scaled;     // with scale factors
  MultiplierShape plain;  // without
  bool has_scales = false;
  AccumulatorType d_type = AccumulatorType::kF32;
  Fragment a, b, d;
  ScaleSlots scale_a, scale_b;
  SparseOperand sparse;

  const uint32_t* A(const Op& op) const { return op.slots + d.registers(); }
  const uint32_t* B(const Op& op) const { return A(op) + a.registers(); }
  const uint32_t* C(const Op& op) const { return B(op) + b.registers(); }
};

// An element in a container of eight bits; four bits are in its middle, bits 5:2.
inline uint32_t FromContainer(MatrixType type, uint32_t bits) {
  return type == MatrixType::kE2m1 ? bits >> 2 & 0xF : bits;
}

// The value of an id, which all lanes give alike.
inline uint32_t IdOf(Warp& w, uint32_t slot, const char* name, int limit, int step) {
  const uint16_t* values = w.Reg<uint16_t>(slot);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (values[lane] == values[0] && values[lane] < limit && values[lane] % step == 0) continue;
    Fail(w.Here(lane), "illegal-operand",
         std::string(name) + " of mma is " + std::to_string(values[lane]) +
             (values[lane] != values[0] ? ", not that of the other lanes"
                                        : ", not a multiple of " + std::to_string(step) +
                                              " below " + std::to_string(limit)));
  }
  return values[0];
}

// The lane whose register has a factor, and the byte of the register.
struct FactorPlace {
  int lane, byte;
};

// Row m of A has its factors in lane 4 * (m % 8) + 2 * id + m / 8, column n of B in 4 * n + id.
template <typename Put>
void VisitFactors(Warp& w, const KindMma& form, const ScaleSlots& slots, bool of_a, Put put) {
  const int count = form.scaled.blocks;
  const uint32_t byte = IdOf(w, slots.byte_id, of_a ? "byte-id-a" : "byte-id-b", 4, count);
  const uint32_t thread =
      IdOf(w, slots.thread_id, of_a ? "thread-id-a" : "thread-id-b", of_a ? 2 : 4, 1);
  const uint32_t* words = w.Reg<uint32_t>(slots.word);
  const uint32_t vectors = of_a ? kScaledRows : kScaledColumns;
  for (uint32_t i = 0; i < vectors; ++i) {
    const uint32_t lane = of_a ? 4 * (i % 8) + 2 * thread + i / 8 : 4 * i + thread;
    for (int j = 0; j < count; ++j) {
      const int place = static_cast<int>(byte) + j;
      put(static_cast<int>(i), j, static_cast<uint8_t>(words[lane] >> (8 * place)),
          FactorPlace{static_cast<int>(lane), place});
    }
  }
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_MMA_KIND_H_
