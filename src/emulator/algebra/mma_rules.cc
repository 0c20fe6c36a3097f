// mma.sync on elements.
#include "emulator/algebra/product.h"
#include "emulator/algebra/warp_values.h"
#include "emulator/instructions/mma_form.h"
#include "emulator/instructions/mma_registers.h"

namespace tilelang::emulator {
namespace {

// Calls each(row, column, slot, lane, byte of the register) for the elements of a matrix.
template <typename Each>
void ForEachPlaceOf(const Fragment& fragment, const uint32_t* slots, Each each) {
  const int count = fragment.per_register();
  for (int r = 0; r < fragment.registers(); ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int e = 0; e < count; ++e) {
        const auto place = fragment.At(lane, r * count + e);
        each(place.row, place.column, slots[r], lane, e * fragment.bits / 8);
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
  ForEachPlaceOf(form.a, a, [&](int row, int k, uint32_t slot, int lane, int offset) {
    product.SetA(row, k, Read(warp, slot, lane, offset, a_type));
  });
  ForEachPlaceOf(form.b, b, [&](int k, int column, uint32_t slot, int lane, int offset) {
    product.SetB(column, k, Read(warp, slot, lane, offset, b_type));
  });
  if (form.shape.sparse) {
    ForEachPlace(const_cast<Warp&>(warp), form.sparse, form.shape.k,
                 [&](int row, int k, int place) { product.SetPlace(row, k, place); });
  }
  elements_.resize(static_cast<size_t>(m * n));
  const Type c_type = wide ? Type::kF64 : FloatOf(form.c_type);
  ForEachPlaceOf(form.c, c, [&](int row, int column, uint32_t slot, int lane, int offset) {
    elements_[static_cast<size_t>(row * n + column)] = Read(warp, slot, lane, offset, c_type);
  });
  for (int row = 0; row < m; ++row)
    product.Row(row, 0, n, &elements_[static_cast<size_t>(row * n)]);
}

void WarpValues::AfterMma(const Op& op) {
  const MmaForm& form = op.Extra<MmaForm>();
  if (!IsFollowed(form)) return ClearWrites(kernel_.sources[op.source], kAllLanes);
  const Type type = form.kind == MmaKind::kDouble ? Type::kF64 : FloatOf(form.shape.d_type);
  ForEachPlaceOf(form.d, op.slots, [&](int row, int column, uint32_t slot, int lane, int offset) {
    Write(slot, lane, offset, type, elements_[static_cast<size_t>(row * form.shape.n + column)]);
  });
}

}  // namespace tilelang::emulator
