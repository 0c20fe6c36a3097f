// mma.sync on elements.
#include <cmath>

#include "emulator/algebra/product.h"
#include "emulator/algebra/warp_values.h"
#include "emulator/instructions/mma_kind.h"
#include "emulator/instructions/mma_registers.h"

namespace tilelang::emulator {
namespace {

// Calls each(row, column, slot, lane, bit of the register) for the elements of a matrix.
template <typename Each>
void ForEachPlaceOf(const Fragment& fragment, const uint32_t* slots, Each each) {
  const int count = fragment.per_register();
  for (int r = 0; r < fragment.registers(); ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int e = 0; e < count; ++e) {
        const auto place = fragment.At(lane, r * count + e);
        each(place.row, place.column, slots[r], lane, e * fragment.bits);
      }
    }
  }
}

Type FloatOf(AccumulatorType type) {
  return type == AccumulatorType::kF16 ? Type::kF16 : Type::kF32;
}

bool IsFollowed(const MmaForm& form) {
  return form.kind != MmaKind::kQuads && !IsInteger(form.a_type);
}

}  // namespace

Type FloatTypeOf(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
      return Type::kF16;
    case MatrixType::kBf16:
      return Type::kBF16;
    case MatrixType::kTf32:
      return Type::kF32;
    case MatrixType::kE4m3:
      return Type::kE4M3;
    case MatrixType::kE5m2:
      return Type::kE5M2;
    default:
      return Type::kNone;
  }
}

void WarpValues::BeforeMma(const Warp& warp, const Op& op) {
  if (op.flags == kHasMmaKind) return BeforeKindMma(warp, op);
  thread_local ElementProduct product;
  const MmaForm& form = op.Extra<MmaForm>();
  if (!IsFollowed(form)) return;
  const bool wide = form.kind == MmaKind::kDouble;
  const Type a_type = wide ? Type::kF64 : FloatTypeOf(form.a_type);
  const Type b_type = wide ? Type::kF64 : FloatTypeOf(form.b_type);
  const int m = form.shape.m, n = form.shape.n;
  const uint32_t* a = op.slots + form.d.registers();
  const uint32_t* b = a + form.a.registers();
  const uint32_t* c = b + form.b.registers();
  product.Start(n, form.shape.lines());
  product.StartA(m, form.shape.k);
  ForEachPlaceOf(form.a, a, [&](int row, int k, uint32_t slot, int lane, int bit) {
    product.SetA(row, k, Read(warp, slot, lane, bit / 8, a_type));
  });
  ForEachPlaceOf(form.b, b, [&](int k, int column, uint32_t slot, int lane, int bit) {
    product.SetB(column, k, Read(warp, slot, lane, bit / 8, b_type));
  });
  if (form.shape.sparse) {
    ForEachPlace(const_cast<Warp&>(warp), form.sparse, form.shape.k,
                 [&](int row, int k, int place) { product.SetPlace(row, k, place); });
  }
  elements_.resize(static_cast<size_t>(m * n));
  const Type c_type = wide ? Type::kF64 : FloatOf(form.c_type);
  ForEachPlaceOf(form.c, c, [&](int row, int column, uint32_t slot, int lane, int bit) {
    elements_[static_cast<size_t>(row * n + column)] = Read(warp, slot, lane, bit / 8, c_type);
  });
  for (int row = 0; row < m; ++row)
    product.Row(row, 0, n, &elements_[static_cast<size_t>(row * n)]);
}

// Elements below eight bits are taken by their values.
void WarpValues::BeforeKindMma(const Warp& warp, const Op& op) {
  thread_local ElementProduct product;
  const KindMma& form = op.Extra<KindMma>();
  const ScaledShape& shape = form.scaled;
  auto& changeable = const_cast<Warp&>(warp);
  const auto element = [&](MatrixType of, const Fragment& fragment, uint32_t slot, int lane,
                           int bit) {
    const Type type = FloatTypeOf(of);
    if (type != Type::kNone) return Read(warp, slot, lane, bit / 8, type);
    const uint32_t bits = warp.Reg<uint32_t>(slot)[lane] >> bit & ((1u << fragment.bits) - 1);
    return ElementOfFloat(DecodeElement(of, fragment.bits == 4 ? bits : FromContainer(of, bits)));
  };
  product.Start(shape.n, shape.lines());
  product.StartA(shape.m, shape.k);
  ForEachPlaceOf(form.a, form.A(op), [&](int row, int k, uint32_t slot, int lane, int bit) {
    product.SetA(row, k, element(shape.a_type, form.a, slot, lane, bit));
  });
  ForEachPlaceOf(form.b, form.B(op), [&](int k, int column, uint32_t slot, int lane, int bit) {
    product.SetB(column, k, element(shape.b_type, form.b, slot, lane, bit));
  });
  if (shape.sparse) {
    ForEachPlace(changeable, form.sparse, shape.k,
                 [&](int row, int k, int place) { product.SetPlace(row, k, place); });
  }
  const auto factor = [&](const ScaleSlots& slots, uint8_t code, FactorPlace at) {
    Element element;
    const size_t place = Place(slots.word, at.lane) + static_cast<size_t>(at.byte);
    if (tagged_[slots.word / 32] && registers_.Get(place, 1, &code, &element)) return element;
    const ScaleFactor scale = DecodeScale(shape.scale_type, code);
    return ElementOf(std::ldexp(static_cast<double>(scale.significand), scale.exponent));
  };
  if (form.has_scales) {
    const int a_block = shape.k / shape.blocks, b_block = shape.lines() / shape.blocks;
    VisitFactors(
        changeable, form, form.scale_a, true, [&](int row, int j, uint8_t code, FactorPlace at) {
          product.ScaleA(row, j * a_block, (j + 1) * a_block, factor(form.scale_a, code, at));
        });
    VisitFactors(changeable, form, form.scale_b, false,
                 [&](int column, int j, uint8_t code, FactorPlace at) {
                   product.ScaleB(column, j * b_block, (j + 1) * b_block,
                                  factor(form.scale_b, code, at));
                 });
  }
  const int n = shape.n;
  elements_.resize(static_cast<size_t>(shape.m * n));
  ForEachPlaceOf(form.d, form.C(op), [&](int row, int column, uint32_t slot, int lane, int bit) {
    elements_[static_cast<size_t>(row * n + column)] =
        Read(warp, slot, lane, bit / 8, FloatOf(form.d_type));
  });
  for (int row = 0; row < shape.m; ++row) {
    product.Row(row, 0, n, &elements_[static_cast<size_t>(row * n)]);
  }
}

void WarpValues::AfterMma(const Op& op) {
  if (op.flags == kHasMmaKind) {
    const KindMma& kind = op.Extra<KindMma>();
    return StoreProduct(op, kind.d, FloatOf(kind.d_type), kind.scaled.n);
  }
  const MmaForm& form = op.Extra<MmaForm>();
  if (!IsFollowed(form)) return ClearWrites(kernel_.sources[op.source], kAllLanes);
  const Type type = form.kind == MmaKind::kDouble ? Type::kF64 : FloatOf(form.shape.d_type);
  StoreProduct(op, form.d, type, form.shape.n);
}

void WarpValues::StoreProduct(const Op& op, const Fragment& d, Type type, int n) {
  ForEachPlaceOf(d, op.slots, [&](int row, int column, uint32_t slot, int lane, int bit) {
    Write(slot, lane, bit / 8, type, elements_[static_cast<size_t>(row * n + column)]);
  });
}

}  // namespace tilelang::emulator
