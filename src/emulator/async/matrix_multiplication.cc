#include "emulator/async/matrix_multiplication.h"

#include <algorithm>
#include <cmath>

#include "emulator/algebra/warp_values.h"

namespace tilelang::emulator {
namespace {

constexpr size_t kMostColumns = 256;

}  // namespace

void FollowedOperands::Start(const MultiplierShape& shape) {
  ScaledShape scaled;
  scaled.m = shape.m;
  scaled.n = shape.n;
  scaled.k = shape.k;
  scaled.a_type = shape.a_type;
  scaled.b_type = shape.b_type;
  scaled.negate_a = shape.negate_a;
  scaled.negate_b = shape.negate_b;
  scaled.sparse = shape.sparse;
  Start(scaled, shape.d_type, shape.options.c_shift);
}

void FollowedOperands::Start(const ScaledShape& shape) { Start(shape, AccumulatorType::kF32, 0); }

void FollowedOperands::Start(const ScaledShape& shape, AccumulatorType d_type, int c_shift) {
  shape_ = shape;
  followed_ = !IsInteger(shape.a_type);
  half_ = d_type == AccumulatorType::kF16;
  c_shift_ = c_shift;
  sums_.resize(kMostColumns);
  if (followed_) product_.Start(shape.n, shape.lines());
}

void FollowedOperands::StartA() {
  if (followed_) product_.StartA(shape_.m, shape_.k);
}

Element FollowedOperands::ElementAt(MatrixType type, const OperandElement& at) const {
  if (!at.bytes) return ElementOfFloat(0);
  const Type of = FloatTypeOf(type);
  if (of == Type::kNone) return ElementOfFloat(DecodeElement(type, at.Bits(type)));
  const int bytes = FloatFormatOfType(of).bytes;
  const uint8_t* place = at.bytes + at.index * bytes;
  Element element;
  if (AlgebraState::Current()->memory.Get(place, bytes, &element)) return element;
  return ElementOfBits(of, place);
}

void FollowedOperands::SetA(int row, int k, const OperandElement& at) {
  if (!followed_) return;
  const Element element = ElementAt(shape_.a_type, at);
  product_.SetA(row, k, shape_.negate_a ? Negate(element) : element);
}

void FollowedOperands::SetA(int row, int k, const RegisterElement& at) {
  if (!followed_) return;
  const Type type = FloatTypeOf(shape_.a_type);
  const Element element =
      WarpValues::Of(*at.warp).Read(*at.warp, at.slot, at.lane, at.offset, type);
  product_.SetA(row, k, shape_.negate_a ? Negate(element) : element);
}

void FollowedOperands::SetB(int column, int k, const OperandElement& at) {
  if (!followed_) return;
  const Element element = ElementAt(shape_.b_type, at);
  product_.SetB(column, k, shape_.negate_b ? Negate(element) : element);
}

void FollowedOperands::SetPlace(int row, int k, int place) {
  if (followed_) product_.SetPlace(row, k, place);
}

Element FollowedOperands::Scale(const uint8_t* code) const {
  Element element;
  if (AlgebraState::Current()->memory.Get(code, 1, &element)) return element;
  const ScaleFactor factor = DecodeScale(shape_.scale_type, *code);
  return ElementOf(std::ldexp(static_cast<double>(factor.significand), factor.exponent));
}

void FollowedOperands::ScaleA(int row, int block, const uint8_t* code) {
  const int length = shape_.k / shape_.blocks;
  product_.ScaleA(row, block * length, (block + 1) * length, Scale(code));
}

void FollowedOperands::ScaleB(int column, int block, const uint8_t* code) {
  const int length = shape_.lines() / shape_.blocks;
  product_.ScaleB(column, block * length, (block + 1) * length, Scale(code));
}

void FollowedOperands::RowInPlace(int row, int first_column, int columns, bool accumulate,
                                  const uint32_t* cells) {
  if (!followed_) return;
  const int bytes = half_ ? 2 : 4;
  const Element shift = ElementOf(std::ldexp(1.0, -c_shift_));
  for (int j = 0; j < columns; ++j) {
    Element& sum = sums_[static_cast<size_t>(j)];
    if (!accumulate) {
      sum = ElementOfFloat(0);
    } else if (!AlgebraState::Current()->memory.Get(cells + j, bytes, &sum)) {
      sum = ElementOfBits(accumulator(), reinterpret_cast<const uint8_t*>(cells + j));
    }
    if (c_shift_ != 0) sum = Multiply(sum, shift);
  }
  product_.Row(row, first_column, columns, sums_.data());
}

void FollowedOperands::StoreInPlace(int columns, uint32_t* cells) {
  ShadowMemory& memory = AlgebraState::Current()->memory;
  for (int j = 0; j < columns; ++j) {
    const Element& sum = sums_[static_cast<size_t>(j)];
    memory.Clear(cells + j, sizeof *cells);
    if (followed_ && sum.known()) memory.Set(cells + j, half_ ? 2 : 4, sum);
  }
}

void FollowedOperands::SetSum(int column, const RegisterElement* at) {
  if (!followed_) return;
  sums_[static_cast<size_t>(column)] =
      at ? WarpValues::Of(*at->warp).Read(*at->warp, at->slot, at->lane, at->offset, accumulator())
         : ElementOfFloat(0);
}

void FollowedOperands::Row(int row, int columns) {
  if (followed_) {
    product_.Row(row, 0, columns, sums_.data());
  } else {
    std::fill_n(sums_.begin(), columns, kUnknownElement);
  }
}

void FollowedOperands::StoreSum(int column, const RegisterElement& at) {
  WarpValues::Of(*at.warp).Write(at.slot, at.lane, at.offset, accumulator(),
                                 sums_[static_cast<size_t>(column)]);
}

}  // namespace tilelang::emulator
