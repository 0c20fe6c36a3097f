// mma.sync: a warp multiplies matrices that lie in its registers.
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/machine.h"
#include "emulator/instructions/mma_form.h"
#include "emulator/instructions/mma_registers.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

constexpr int kMaxRows = 32;
constexpr int kColumns = 8;

// The slots of the operands' registers, in the order in which they are decoded.
struct OperandSlots {
  OperandSlots(const Op& op, const MmaForm& form)
      : d(op.slots),
        a(d + form.d.registers()),
        b(a + form.a.registers()),
        c(b + form.b.registers()) {}
  const uint32_t* d;
  const uint32_t* a;
  const uint32_t* b;
  const uint32_t* c;
};

float ToFloat(AccumulatorType type, uint32_t bits) {
  return type == AccumulatorType::kF16 ? F16ToF32(static_cast<uint16_t>(bits))
                                       : std::bit_cast<float>(bits);
}

uint32_t CanonicalBits(float value) {
  return std::isnan(value) ? kF32.canonical_nan() : std::bit_cast<uint32_t>(value);
}

// Adds two f16 or f32, rounded to nearest.
uint32_t Add(AccumulatorType type, uint32_t one, uint32_t other) {
  if (type == AccumulatorType::kF32) {
    return CanonicalBits(ToFloat(type, one) + ToFloat(type, other));
  }
  // The sum of two f16 is exact in double.
  const double sum = static_cast<double>(ToFloat(type, one)) + ToFloat(type, other);
  return EncodeFloat(kF16, sum, Rounding::kNearestEven, false);
}

// Says where element k of a row of A is in the sums, and returns its bits there. If A is dense,
// element k of B is in the same place.
struct OperandView {
  bool through_f16;
  int depth;
  int Index(int k) const { return through_f16 ? k % 4 / 2 * (depth / 2) + k / 4 * 2 + k % 2 : k; }
  uint32_t Bits(MatrixType type, uint32_t bits) const {
    return through_f16 ? F32ToF16(DecodeElement(type, bits)) : bits;
  }
};

void RunTensor(Warp& w, const Op& op) {
  if (w.cta.cluster.launch.skips_products) return;
  thread_local MatrixMultiplier multiplier;
  const MmaForm& form = op.Extra<MmaForm>();
  const OperandSlots slots(op, form);
  const OperandView view{form.through_f16, form.shape.k};
  multiplier.Start(form.shape);
  multiplier.StartA();
  ForEachElement(w, slots.a, form.a, [&](int row, int k, uint32_t bits) {
    multiplier.SetA(row, view.Index(k), view.Bits(form.a_type, bits));
  });
  ForEachElement(w, slots.b, form.b, [&](int k, int column, uint32_t bits) {
    multiplier.SetB(column, form.shape.sparse ? k : view.Index(k), view.Bits(form.b_type, bits));
  });
  if (form.shape.sparse) {
    ForEachPlace(w, form.sparse, form.shape.k, [&](int row, int k, int place) {
      multiplier.SetPlace(row, view.Index(k), place);
    });
  }
  uint32_t c[kMaxRows][kColumns], cells[kMaxRows][kColumns];
  ForEachElement(w, slots.c, form.c,
                 [&](int row, int column, uint32_t bits) { c[row][column] = bits; });
  std::memcpy(cells, c, sizeof(c));
  for (int row = 0; row < form.shape.m; ++row) {
    multiplier.Row(row, 0, form.shape.n, !form.through_f16, cells[row]);
  }
  SetEachElement(w, slots.d, form.d, [&](int row, int column) {
    const uint32_t sum = cells[row][column];
    return form.through_f16 ? Add(form.c_type, sum, c[row][column]) : sum;
  });
}

// A chain of fused multiply-adds over k, rounded to nearest.
void RunDouble(Warp& w, const Op& op) {
  const MmaForm& form = op.Extra<MmaForm>();
  const OperandSlots slots(op, form);
  double a[16][16], b[16][kColumns], d[16][kColumns];
  const auto load = [&](const uint32_t* from, const Fragment& fragment, auto& matrix) {
    ForEachElement<uint64_t>(w, from, fragment, [&](int row, int column, uint64_t bits) {
      matrix[row][column] = std::bit_cast<double>(bits);
    });
  };
  load(slots.a, form.a, a);
  load(slots.b, form.b, b);
  load(slots.c, form.c, d);
  for (int row = 0; row < form.shape.m; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      double& sum = d[row][column];
      for (int k = 0; k < form.shape.k; ++k) sum = std::fma(a[row][k], b[k][column], sum);
    }
  }
  SetEachElement<uint64_t>(w, slots.d, form.d, [&](int row, int column) {
    return std::bit_cast<uint64_t>(d[row][column]);
  });
}

// Computes like the code of ptxas 13 for targets whose tensor cores do not have the shape.
float QuadSum(AccumulatorType d_type, const float* a, const float* b, float c) {
  const bool half = d_type == AccumulatorType::kF16;
  float sum = std::fma(a[1], b[1], a[0] * b[0]);
  if (half) return (sum + c) + std::fma(a[3], b[3], a[2] * b[2]);
  return std::fma(a[3], b[3], std::fma(a[2], b[2], sum)) + c;
}

void RunQuads(Warp& w, const Op& op) {
  const MmaForm& form = op.Extra<MmaForm>();
  const OperandSlots slots(op, form);
  float a[kMaxRows][4], b[kMaxRows][4], c[kMaxRows][kColumns];
  ForEachElement(w, slots.a, form.a, [&](int row, int k, uint32_t bits) {
    a[row][k] = F16ToF32(static_cast<uint16_t>(bits));
  });
  ForEachElement(w, slots.b, form.b, [&](int k, int column, uint32_t bits) {
    b[column][k] = F16ToF32(static_cast<uint16_t>(bits));
  });
  ForEachElement(w, slots.c, form.c, [&](int row, int column, uint32_t bits) {
    c[row][column] = ToFloat(form.c_type, bits);
  });
  const AccumulatorType type = form.shape.d_type;
  SetEachElement(w, slots.d, form.d, [&](int row, int column) {
    const float sum = QuadSum(type, a[row], b[row / 8 * 8 + column], c[row][column]);
    return type == AccumulatorType::kF16 ? F32ToF16(sum) : CanonicalBits(sum);
  });
}

Type RegisterType(const MmaForm& form, AccumulatorType type) {
  if (form.kind == MmaKind::kDouble) return Type::kF64;
  return type == AccumulatorType::kS32   ? Type::kS32
         : type == AccumulatorType::kF32 ? Type::kF32
                                         : Type::kB32;
}

// Takes kind::f8f6f4 as another name of the forms of e4m3 and e5m2, which it is before sm_120.
bool TakeAsPlain(Decoder& d, MmaSparsity sparsity) {
  const bool fp8 = d.mods.Has("e4m3") || d.mods.Has("e5m2");
  const char* shape = sparsity == MmaSparsity::kDense ? "m16n8k32" : "m16n8k64";
  if (d.function().context().device.sm >= 120 || !fp8 || !d.mods.Has(shape) ||
      sparsity == MmaSparsity::kSparse) {
    return false;
  }
  return d.mods.Take("kind::f8f6f4");
}

template <MmaSparsity sparsity>
void DecodeMma(Decoder& d) {
  if (HasMmaKind(d) && !TakeAsPlain(d, sparsity)) return DecodeMmaOfKind(d, sparsity);
  MmaForm& form = d.MakeExtra<MmaForm>(TakeMmaForm(d, sparsity));
  d.op.flags = kHasMmaForm;
  const Type operand = form.kind == MmaKind::kDouble ? Type::kF64 : Type::kB32;
  PushRegisters(d, 0, "D", form.d, RegisterType(form, form.shape.d_type));
  PushRegisters(d, 1, "A", form.a, operand);
  PushRegisters(d, 2, "B", form.b, operand);
  PushRegisters(d, 3, "C", form.c, RegisterType(form, form.c_type));
  if (form.shape.sparse) TakeMetadata(d, 4, form.sparse);
  d.op.handler = form.kind == MmaKind::kDouble  ? Multiply<RunDouble>
                 : form.kind == MmaKind::kQuads ? Multiply<RunQuads>
                                                : Multiply<RunTensor>;
}

}  // namespace

void RegisterMma() {
  FamilyRegistry::Add("mma", DecodeMma<MmaSparsity::kDense>);
  FamilyRegistry::Add("mma.sp", DecodeMma<MmaSparsity::kSparse>);
  FamilyRegistry::Add("mma.sp::ordered_metadata", DecodeMma<MmaSparsity::kOrdered>);
}

}  // namespace tilelang::emulator
