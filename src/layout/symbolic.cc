#include "layout/symbolic.h"

#include <algorithm>

#include "layout/throw.h"

namespace tilelang::layout {

using ir::Expr;

namespace {

Expr Imm(const Expr& like, int64_t value) { return ir::Const(like.dtype(), value); }

Expr Times(const Expr& e, int64_t factor) { return factor == 1 ? e : e * Imm(e, factor); }
Expr Over(const Expr& e, int64_t divisor) {
  return divisor == 1 ? e : ir::FloorDiv(e, Imm(e, divisor));
}
Expr Modulo(const Expr& e, int64_t divisor) {
  return divisor == 1 ? Imm(e, 0) : ir::FloorMod(e, Imm(e, divisor));
}
Expr Plus(const Expr& a, const Expr& b) {
  if (ir::IsConst(a, 0)) return b;
  return ir::IsConst(b, 0) ? a : a + b;
}

/*! Sum of digit * stride over a canonical form; the index is in [0, extent). */
Expr FormExpr(const Digits& form, const Expr& index) {
  Expr sum = Imm(index, 0);
  int64_t radix = 1;
  for (size_t k = 0; k < form.size(); ++k) {
    if (form[k].stride != 0) {
      Expr digit = Over(index, radix);
      if (k + 1 < form.size()) digit = Modulo(digit, form[k].extent);
      sum = Plus(sum, Times(digit, form[k].stride));
    }
    radix *= form[k].extent;
  }
  return sum;
}

Expr SwizzleExpr(const Swizzle& swizzle, const Expr& index) {
  if (swizzle.IsIdentity()) return index;
  Expr source = index & Imm(index, swizzle.SourceMask());
  ir::BinaryOp op = swizzle.shift > 0 ? ir::BinaryOp::kShr : ir::BinaryOp::kShl;
  return index ^ ir::MakeBinary(op, source, Imm(index, std::abs(swizzle.shift)));
}

}  // namespace

Expr ForwardExpr(const Layout& layout, const std::vector<Expr>& coord) {
  LAYOUT_REQUIRE(coord.size() == layout->Rank(), ShapeError)
      << coord.size() << " indices for layout " << layout->ToString() << " of rank "
      << layout->Rank();
  if (layout->formula) return layout->formula.value()->At(coord);
  if (layout->IsTable()) {
    LAYOUT_THROW(UnsupportedError)
        << "the layout of shape " << CoordToString(layout->Extents())
        << " has no index expression: its function branches on the indices, or takes them as an "
           "index of a list; write it with + - * // % & ^ >> and T.if_then_else, or use "
           "tilelang.layout.make_swizzled_layout";
  }
  std::vector<Digits> forms = CanonicalForms(layout.get());
  Expr sum = Imm(coord[0], 0);
  if (layout->IsFlat()) {
    sum = FormExpr(forms[0], LinearIndexExpr(layout->Extents(), coord));
  } else {
    for (size_t d = 0; d < coord.size(); ++d) sum = Plus(sum, FormExpr(forms[d], coord[d]));
  }
  return SwizzleExpr(layout->GetSwizzle(), Plus(sum, Imm(coord[0], layout->offset)));
}

Expr ThreadExpr(const Fragment& fragment, const std::vector<Expr>& coord, const Expr& rep) {
  Expr thread = ForwardExpr(fragment->thread, coord);
  if (!rep.defined()) return Plus(thread, Imm(thread, fragment->replica->At(0)));
  return Plus(thread, ForwardExpr(fragment->replica, {rep}));
}

Expr RegExpr(const Fragment& fragment, const std::vector<Expr>& coord) {
  return ForwardExpr(fragment->reg, coord);
}

namespace {

/*! Peels the digits of one source (thread or register), largest stride first. */
class DigitPeeler {
 public:
  DigitPeeler(Expr source, int64_t bound) : source_(source), rest_(source), bound_(bound) {}

  /*! The next digit; `gap` is set when values of the source skip it or exceed its extent. */
  Expr Next(const InverseDigit& digit, std::vector<Expr>* checks) {
    Expr value = Over(rest_, digit.stride);
    // The digit's range as the bound of the source allows it.
    int64_t reach = (bound_ + digit.stride - 1) / digit.stride;
    if (reach > digit.extent) checks->push_back(value < Imm(value, digit.extent));
    // x % a % b is x % b when b divides a.
    bool direct = modulus_ == 0 || modulus_ % digit.stride == 0;
    rest_ = Modulo(direct ? source_ : rest_, digit.stride);
    modulus_ = digit.stride;
    bound_ = std::min(bound_, digit.stride);
    return value;
  }

  /*! What is left below the last digit must be zero. */
  void Finish(std::vector<Expr>* checks) {
    if (bound_ > 1) checks->push_back(ir::MakeEq(rest_, Imm(rest_, 0)));
  }

 private:
  Expr source_;
  Expr rest_;            // source_ reduced by the strides so far
  int64_t modulus_ = 0;  // the last of them
  int64_t bound_;        // rest_ is below it
};

/*! Subtracts the least index of a source; indices below it hold nothing. */
Expr Rebase(const Expr& index, int64_t least, std::vector<Expr>* checks) {
  if (least == 0) return index;
  checks->push_back(index >= Imm(index, least));
  return index - Imm(index, least);
}

Expr Conjunction(const std::vector<Expr>& checks) {
  Expr all;
  for (const Expr& check : checks) all = all.defined() ? all && check : check;
  return all;
}

/*! Checks each coordinate whose digits can exceed its extent. */
void CheckExtents(const FragmentInverse& inverse, const Coord& extents,
                  const std::vector<Expr>& coord, std::vector<Expr>* checks) {
  std::vector<int64_t> largest(coord.size(), 0);
  for (const InverseDigit& digit : inverse.digits) {
    if (digit.dim >= 0) largest[digit.dim] += (digit.extent - 1) * digit.place;
  }
  for (size_t d = 0; d < coord.size(); ++d) {
    if (largest[d] >= extents[d]) checks->push_back(coord[d] < Imm(coord[d], extents[d]));
  }
}

}  // namespace

SlotExprs InverseExprs(const Fragment& fragment, const Expr& thread, const Expr& reg,
                       int64_t num_threads) {
  std::optional<FragmentInverse> inverse = InverseDigits(fragment);
  if (!inverse) {
    LAYOUT_THROW(UnsupportedError) << "no closed form for the inverse of " << fragment->ToString();
  }
  Coord extents = fragment->Extents();
  if (inverse->linear_index) extents = {Product(extents)};
  std::vector<Expr> checks, coord(extents.size(), Imm(thread, 0));
  int64_t first_thread = fragment->thread->offset + fragment->replica->offset;
  int64_t first_reg = fragment->reg->offset;
  DigitPeeler threads(Rebase(thread, first_thread, &checks), num_threads - first_thread);
  DigitPeeler regs(Rebase(reg, first_reg, &checks), fragment->RegsPerThread() - first_reg);
  SlotExprs slot;
  slot.rep = Imm(thread, 0);
  for (const InverseDigit& digit : inverse->digits) {
    Expr value = (digit.on_thread ? threads : regs).Next(digit, &checks);
    Expr& target = digit.dim < 0 ? slot.rep : coord[digit.dim];
    target = Plus(target, Times(value, digit.place));
  }
  threads.Finish(&checks);
  regs.Finish(&checks);
  CheckExtents(*inverse, extents, coord, &checks);
  slot.valid = Conjunction(checks);
  slot.coord = inverse->linear_index ? DelinearizedExprs(fragment->Extents(), coord[0]) : coord;
  return slot;
}

}  // namespace tilelang::layout
