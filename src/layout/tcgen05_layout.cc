#include "layout/tcgen05_layout.h"

#include <algorithm>

#include "layout/throw.h"

namespace tilelang::layout {

namespace {

/*! A column stride that stands for the half offset of 16x32bx2. */
constexpr int64_t kHalf = -1;

// Digits fastest first within each source; the last register digit runs through the repeats.
// size-exempt: table
const std::array<TmemAtom, kNumTmemShapes>& Atoms() {
  static const std::array<TmemAtom, kNumTmemShapes> atoms = {{
      {TmemShape::k32x32b,
       "32x32b",
       32,
       32,
       1,
       1,
       128,
       {{true, 1, 32, 1, 0}, {false, 1, 128, 0, 1}}},
      {TmemShape::k16x64b,
       "16x64b",
       16,
       64,
       1,
       2,
       128,
       {{true, 1, 2, 8, 0}, {true, 2, 2, 0, 1}, {true, 4, 8, 1, 0}, {false, 1, 128, 0, 2}}},
      {TmemShape::k16x128b,
       "16x128b",
       16,
       128,
       2,
       4,
       64,
       {{true, 1, 4, 0, 1}, {true, 4, 8, 1, 0}, {false, 1, 2, 8, 0}, {false, 2, 64, 0, 4}}},
      {TmemShape::k16x256b,
       "16x256b",
       16,
       256,
       4,
       8,
       32,
       {{true, 1, 4, 0, 2},
        {true, 4, 8, 1, 0},
        {false, 1, 2, 0, 1},
        {false, 2, 2, 8, 0},
        {false, 4, 32, 0, 8}}},
      {TmemShape::k16x32bx2,
       "16x32bx2",
       16,
       32,
       1,
       1,
       128,
       {{true, 1, 16, 1, 0}, {true, 16, 2, 0, kHalf}, {false, 1, 128, 0, 1}}},
  }};
  return atoms;
}

}  // namespace

const TmemAtom& GetTmemAtom(TmemShape shape) { return Atoms()[static_cast<int>(shape)]; }

const TmemAtom& FindTmemAtom(const std::string& name) {
  for (const TmemAtom& atom : Atoms()) {
    if (name == atom.name) return atom;
  }
  LAYOUT_THROW(LayoutError) << "no tcgen05.ld/st shape is called '" << name
                            << "'; there are 32x32b, 16x64b, 16x128b, 16x256b and 16x32bx2";
}

TmemCell TmemCellOf(const TmemAtom& atom, int64_t thread, int64_t reg, int64_t half_offset,
                    bool pack) {
  TmemCell cell{0, 0};
  int64_t half = 0;
  for (const TmemDigit& digit : atom.digits) {
    int64_t value = (digit.on_thread ? thread : reg) / digit.source % digit.extent;
    cell.lane += value * digit.lane;
    if (digit.column == kHalf) {
      half = value * half_offset;
    } else {
      cell.column += value * digit.column;
    }
  }
  if (pack) cell.column *= 2;
  cell.column += half;
  return cell;
}

// ---- TmemLayout ----

int64_t TmemLayoutNode::Columns() const {
  return (bit->Cosize() + kTmemColumnBits - 1) / kTmemColumnBits;
}

bool TmemLayoutNode::IsUnpacked() const {
  if (element_bits >= kTmemColumnBits) return false;
  std::vector<int64_t> bits = bit->Tabulate();
  return bits.size() > 1 && std::all_of(bits.begin(), bits.end(), [&](int64_t b) {
           return (b - bits[0]) % kTmemColumnBits == 0;
         });
}

std::string TmemLayoutNode::ToString() const {
  std::string text = "Tmem" + CoordToString(Extents()) + "{lane " + lane->ToString() + ", bit " +
                     bit->ToString() + ", " + std::to_string(element_bits) + "-bit";
  if (copies->Size() > 1) text += ", copies at lanes " + copies->ToString();
  return text + "}";
}

TmemLayout::TmemLayout(Layout lane, Layout bit, int64_t element_bits,
                       std::optional<Layout> copies) {
  LAYOUT_REQUIRE(lane->Extents() == bit->Extents(), LayoutError)
      << "a tensor-memory layout needs lanes and bits on one shape, but they are on "
      << CoordToString(lane->Extents()) << " and " << CoordToString(bit->Extents());
  bool divides =
      element_bits >= 4 && element_bits <= kTmemColumnBits && kTmemColumnBits % element_bits == 0;
  LAYOUT_REQUIRE(divides, LayoutError)
      << "tensor memory holds elements of 4, 8, 16 or 32 bits, not " << element_bits;
  if (!copies) copies = Layout::RowMajor({1});
  data_ = ffi::make_object<TmemLayoutNode>(std::move(lane), std::move(bit), *copies, element_bits);
}

TmemLayout TmemLayout::Slice(const Coord& begin, const Coord& extents) const {
  return TmemLayout(get()->lane.Slice(begin, extents), get()->bit.Slice(begin, extents),
                    get()->element_bits, get()->copies);
}

TmemLayout TmemLayout::Reshape(const Coord& extents) const {
  return TmemLayout(get()->lane.Reshape(extents), get()->bit.Reshape(extents), get()->element_bits,
                    get()->copies);
}

TmemLayout TmemLayout::Staged(int64_t n, int64_t columns) const {
  int64_t step = (columns > 0 ? columns : get()->Columns()) * kTmemColumnBits;
  auto staged = [&](const Layout& layout, int64_t stride) {
    Coord extents = layout->Extents();
    extents.insert(extents.begin(), n);
    if (!layout->IsLinear() || layout->IsFlat()) {
      LAYOUT_THROW(LayoutError) << "cannot stage " << get()->ToString();
    }
    std::vector<Digits> forms = layout->Forms();
    forms.insert(forms.begin(), Digits{{n, stride}});
    return Layout::FromForms(extents, forms, layout->offset);
  };
  return TmemLayout(staged(get()->lane, 0), staged(get()->bit, step), get()->element_bits,
                    get()->copies);
}

// ---- What tcgen05.mma wants ----

namespace {

/*! Lanes of rows, how many ways the columns split over lanes, and copies of an A operand. */
struct RowPlacement {
  Digits rows;            // lane of row m
  int64_t column_splits;  // D's columns fall into this many lane groups
  int64_t split_stride;   // lanes between the groups
  int64_t first_lane = 0;
};

RowPlacement PlaceRows(int64_t m, const MmaForm& form) {
  if (form.cta_group == 2) {
    if (m == 256) return {{{128, 1}, {2, 128}}, 1, 0};
    if (m == 128 && !form.weight_stationary) return {{{64, 1}, {2, 128}}, 2, 64};
  } else if (form.weight_stationary) {
    if (m == 128) return {{{128, 1}}, 1, 0};
    if (m == 64) return {{{64, 1}}, 2, 64};
    if (m == 32) return {{{32, 1}}, 4, 32};
  } else {
    if (m == 128) return {{{128, 1}}, 1, 0};
    if (m == 64) return {{{16, 1}, {4, 32}}, 1, 0, form.lane_alignment};
  }
  LAYOUT_THROW(LayoutError) << "tcgen05.mma has no form with M = " << m << ", cta_group "
                            << form.cta_group << (form.weight_stationary ? ", .ws" : "")
                            << "; M is 64 or 128 for one CTA, 128 or 256 for a pair, 32, 64 or "
                               "128 with .ws";
}

void CheckForm(const MmaForm& form) {
  bool known = (form.cta_group == 1 || (form.cta_group == 2 && !form.weight_stationary)) &&
               (form.lane_alignment == 0 || form.lane_alignment == 16);
  LAYOUT_REQUIRE(known, LayoutError)
      << "tcgen05.mma has cta_group 1 or 2 (.ws with 1 only) and lane alignment 0 or 16, not "
      << form.cta_group << (form.weight_stationary ? " with .ws" : "") << " and "
      << form.lane_alignment;
}

}  // namespace

TmemLayout AccumulatorLayout(int64_t m, int64_t n, int64_t element_bits, MmaForm form) {
  CheckForm(form);
  RowPlacement place = PlaceRows(m, form);
  LAYOUT_REQUIRE(n >= 1 && n % place.column_splits == 0, LayoutError)
      << "an accumulator with M = " << m << " splits its columns " << place.column_splits
      << " ways, but N = " << n;
  int64_t columns = n / place.column_splits;
  Layout lane = Layout::FromForms(
      {m, n}, {place.rows, {{columns, 0}, {place.column_splits, place.split_stride}}},
      place.first_lane);
  Layout bit =
      Layout::FromForms({m, n}, {{{m, 0}}, {{columns, kTmemColumnBits}, {place.column_splits, 0}}});
  return TmemLayout(lane, bit, element_bits);
}

TmemLayout OperandALayout(int64_t m, int64_t k, int64_t element_bits, MmaForm form) {
  CheckForm(form);
  RowPlacement place = PlaceRows(m, form);
  LAYOUT_REQUIRE(k >= 1, LayoutError) << "an operand needs K >= 1, but K = " << k;
  Layout lane = Layout::FromForms({m, k}, {place.rows, {{k, 0}}}, place.first_lane);
  Layout bit = Layout::FromForms({m, k}, {{{m, 0}}, {{k, element_bits}}});
  Layout copies(IntTuple(place.column_splits), IntTuple(place.split_stride));
  return TmemLayout(lane, bit, element_bits, copies);
}

}  // namespace tilelang::layout
