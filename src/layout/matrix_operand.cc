#include "layout/matrix_operand.h"

#include "layout/error.h"

namespace tilelang::layout {

namespace {

constexpr int64_t kChunkBits = 128;  // 16 bytes
constexpr int64_t kGroup = 8;        // rows (or k) of an atom

/*! Width of the swizzle atom in bytes; 16 without swizzle, 0 for swizzles of another kind. */
int64_t AtomBytes(const Swizzle& swizzle, int64_t element_bits) {
  if (swizzle.IsIdentity()) return 16;
  bool chunks = (int64_t{1} << swizzle.base) * element_bits == kChunkBits;
  if (!chunks || swizzle.shift != 3 || swizzle.bits > 3) return 0;
  return int64_t{16} << swizzle.bits;
}

}  // namespace

MatrixOperandResult DescribeMatrixOperand(const Layout& smem, int64_t element_bits, bool k_major) {
  auto no = [](std::string reason) { return MatrixOperandResult{std::nullopt, reason}; };
  if (smem->IsTable() || smem->Rank() != 2 || smem->IsFlat()) {
    return no("it is no two-dimensional shape:stride layout");
  }
  int64_t atom = AtomBytes(smem->GetSwizzle(), element_bits);
  if (atom == 0) return no(smem->GetSwizzle().ToString() + " is no swizzle of 16-byte chunks");
  if (!k_major && element_bits == 32) {
    return no("32-bit elements must be K-major: their other form needs 32-byte swizzle atoms");
  }
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
  int64_t group_step = kGroup * atom;
  if (k_major) return {MatrixOperand{atom, atom == 16 ? atom_step : 0, group_step}, ""};
  // Without swizzle, LBO and SBO change places.
  if (atom == 16) return {MatrixOperand{atom, group_step, atom_step}, ""};
  return {MatrixOperand{atom, atom_step, group_step}, ""};
}

int64_t PlainByteOffset(const Layout& smem, int64_t element_bits, const Coord& coord) {
  LAYOUT_REQUIRE(!smem->IsTable(), LayoutError)
      << "a table layout of shape " << CoordToString(smem->Extents()) << " is no matrix operand";
  Layout plain = Layout::FromForms(smem->Extents(), smem->Forms(), smem->offset);
  return plain->Forward(coord) * element_bits / 8;
}

}  // namespace tilelang::layout
