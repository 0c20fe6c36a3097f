#include "layout/matrix_operand.h"

#include "layout/throw.h"

namespace tilelang::layout {

namespace {

constexpr int64_t kGroup = 8;  // rows (or k) of an atom

/*! Width and chunk of the swizzle in bytes: {16, 16} without one, {0, 0} for other kinds. */
std::pair<int64_t, int64_t> AtomBytes(const Swizzle& swizzle, int64_t element_bits) {
  if (swizzle.IsIdentity()) return {16, 16};
  int64_t chunk = (int64_t{1} << swizzle.base) * element_bits / 8;
  if (chunk == 16 && swizzle.shift == 3 && swizzle.bits <= 3) return {16 << swizzle.bits, 16};
  if (chunk == 32 && swizzle.shift == 2 && swizzle.bits == 2) return {128, 32};
  return {0, 0};
}

/*! Why an operand cannot have the swizzle, or nothing. */
std::string WhyNotSwizzle(const Swizzle& swizzle, int64_t element_bits, bool k_major) {
  auto [atom, chunk] = AtomBytes(swizzle, element_bits);
  if (atom == 0) return swizzle.ToString() + " is no swizzle of 16-byte chunks";
  bool wide = !k_major && element_bits == 32;
  if (wide == (chunk == 32)) return "";
  return wide ? "32-bit elements with M or N contiguous need the 128-byte swizzle of 32-byte chunks"
              : "the swizzle of 32-byte chunks is for 32-bit elements with M or N contiguous";
}

}  // namespace

MatrixOperandResult DescribeMatrixOperand(const Layout& smem, int64_t element_bits, bool k_major) {
  auto no = [](std::string reason) { return MatrixOperandResult{std::nullopt, reason}; };
  if (smem->IsTable() || smem->Rank() != 2 || smem->IsFlat()) {
    return no("it is no two-dimensional shape:stride layout");
  }
  std::string why = WhyNotSwizzle(smem->GetSwizzle(), element_bits, k_major);
  if (!why.empty()) return no(why);
  auto [atom, chunk] = AtomBytes(smem->GetSwizzle(), element_bits);
  std::vector<Digits> forms = CanonicalForms(smem.get());
  const Digits &outer = forms[0], &inner = forms[1];
  int64_t width = atom * 8 / element_bits;
  int64_t row_stride = outer.empty() ? width : outer[0].stride;
  if (outer.size() > 1 || row_stride != width) {
    return no("its rows are not " + std::to_string(atom) + " bytes apart, as the " +
              (atom == 16 ? "unswizzled core matrices" : "swizzle atom") + " want");
  }
  bool contiguous = inner.size() <= 2 && (inner.empty() || inner[0].stride == 1);
  bool several = contiguous && inner.size() == 2;
  if (!contiguous || (several && inner[0].extent != width) ||
      (!several && !inner.empty() && inner[0].extent > width)) {
    return no("its last dimension does not run through atoms of " + std::to_string(atom) +
              " bytes");
  }
  int64_t atom_step = several ? inner[1].stride * element_bits / 8 : 0;
  // Swizzles of 32-byte chunks repeat after four rows.
  int64_t group_step = kGroup * 16 / chunk * atom;
  if (k_major) return {MatrixOperand{atom, atom == 16 ? atom_step : 0, group_step}, ""};
  // Without swizzle, LBO and SBO change places.
  if (atom == 16) return {MatrixOperand{atom, group_step, atom_step}, ""};
  return {MatrixOperand{atom, atom_step, group_step, chunk}, ""};
}

int64_t PlainByteOffset(const Layout& smem, int64_t element_bits, const Coord& coord) {
  LAYOUT_REQUIRE(!smem->IsTable(), LayoutError)
      << "a table layout of shape " << CoordToString(smem->Extents()) << " is no matrix operand";
  Layout plain = Layout::FromForms(smem->Extents(), smem->Forms(), smem->offset);
  return plain->Forward(coord) * element_bits / 8;
}

}  // namespace tilelang::layout
