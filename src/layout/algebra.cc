#include "layout/algebra.h"

#include <algorithm>

#include "layout/throw.h"

namespace tilelang::layout {

namespace {

/*! The layout as one form over its linear index; raises for what is no plain tree. */
Digits LinearForm(const Layout& layout, const char* operation) {
  if (!layout->IsLinear()) {
    LAYOUT_THROW(LayoutError) << operation << " needs a layout without swizzle or table, but got "
                              << layout->ToString();
  }
  Digits flat;
  const std::vector<Digits>& forms = layout->Forms();
  for (size_t d = forms.size(); d-- > 0;) {
    flat.insert(flat.end(), forms[d].begin(), forms[d].end());
  }
  if (!layout->IsExact()) {
    LAYOUT_THROW(LayoutError) << operation << " needs a layout whose tree fills its shape, but got "
                              << layout->ToString();
  }
  return flat;
}

Layout FromFlat(const Digits& digits, int64_t offset = 0) {
  return Layout::FromForms({DigitsSize(digits)}, {digits}, offset);
}

IntTuple ShapeOf(const Layout& layout) { return IntTuple::FromAny(layout->shape); }
IntTuple StrideOf(const Layout& layout) { return IntTuple::FromAny(layout->stride); }

/*! Rebuilds the nesting of `profile`, taking its leaves' new entries fastest first. */
std::pair<IntTuple, IntTuple> Renest(const IntTuple& profile, const std::vector<Digits>& leaves,
                                     size_t* next) {
  if (profile.is_leaf) return EntryOf(leaves[(*next)++]);
  std::vector<IntTuple> shapes(profile.items.size()), strides(profile.items.size());
  for (size_t i = profile.items.size(); i-- > 0;) {
    std::tie(shapes[i], strides[i]) = Renest(profile.items[i], leaves, next);
  }
  return {IntTuple(std::move(shapes)), IntTuple(std::move(strides))};
}

/*! Composition with trees; nothing where the radices do not divide. */
std::optional<Layout> ComposeTrees(const Layout& outer, const Layout& inner) {
  if (!outer->IsLinear() || !inner->IsLinear()) return std::nullopt;
  Digits outer_form = Canonical(LinearForm(outer, "composition"), outer->Size());
  std::vector<Digits> leaves;
  IntTuple profile = ShapeOf(inner);
  for (const Digit& d : LinearForm(inner, "composition")) leaves.push_back({d});
  auto composed = ComposeDigits(outer_form, leaves, inner->offset);
  if (!composed) return std::nullopt;
  for (Digits& leaf : composed->first) leaf = Canonical(leaf, DigitsSize(leaf));
  size_t next = 0;
  auto [shape, stride] = Renest(profile, composed->first, &next);
  Layout result(shape, stride, composed->second + outer->offset);
  // A flat tree runs over the linear index of inner's shape, not over a shape of its own.
  return inner->IsFlat() ? result.Reshape(inner->Extents()) : result;
}

Digits SortedByStride(Digits digits) {
  std::erase_if(digits, [](const Digit& d) { return d.extent == 1; });
  std::stable_sort(digits.begin(), digits.end(),
                   [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  return digits;
}

}  // namespace

Layout Coalesce(const Layout& layout) {
  Digits form = Canonical(LinearForm(layout, "coalesce"), layout->Size());
  if (form.empty()) form = {{1, 0}};
  return FromFlat(form, layout->offset);
}

std::optional<Layout> TryComposition(const Layout& outer, const Layout& inner) {
  LAYOUT_REQUIRE(inner->Cosize() <= outer->Size(), LayoutError)
      << "composition " << outer->ToString() << " o " << inner->ToString() << ": the inner layout "
      << "reaches index " << inner->Cosize() - 1 << ", but the outer one has size "
      << outer->Size();
  if (auto tree = ComposeTrees(outer, inner)) return *tree;
  std::vector<int64_t> table = outer->Tabulate(), values = inner->Tabulate();
  for (int64_t& value : values) value = table[value];
  Layout result = Layout::FromValues(inner->Extents(), values);
  bool wanted_tree = outer->IsLinear() && inner->IsLinear();
  if (wanted_tree && !(result->IsLinear() && result->IsExact())) return std::nullopt;
  return result;
}

Layout Composition(const Layout& outer, const Layout& inner) {
  auto result = TryComposition(outer, inner);
  LAYOUT_REQUIRE(result, LayoutError)
      << "composition " << outer->ToString() << " o " << inner->ToString()
      << " is no shape:stride layout: the extents do not divide";
  return *result;
}

Layout Complement(const Layout& layout, int64_t size) {
  Digits rest;
  int64_t reached = 1;
  auto fail = [&](const char* why) {
    LAYOUT_THROW(LayoutError) << "complement of " << layout->ToString() << " in " << size << ": "
                              << why;
  };
  for (const Digit& d : SortedByStride(LinearForm(layout, "complement"))) {
    if (d.stride == 0) fail("the layout is not injective");
    if (d.stride % reached != 0) fail("the strides do not divide each other");
    if (d.stride > reached) rest.push_back({d.stride / reached, reached});
    reached = d.stride * d.extent;
  }
  if (size % reached != 0) fail("the size is no multiple of the layout's span");
  if (size > reached) rest.push_back({size / reached, reached});
  if (rest.empty()) rest = {{1, 0}};
  return Coalesce(FromFlat(rest));
}

Layout RightInverse(const Layout& layout) {
  if (layout->offset != 0) {
    LAYOUT_THROW(LayoutError) << "right_inverse of " << layout->ToString()
                              << ": a layout with an offset does not reach 0";
  }
  Digits form = LinearForm(layout, "right_inverse");
  struct Entry {
    Digit digit;
    int64_t place;
  };
  std::vector<Entry> entries;
  int64_t place = 1;
  for (const Digit& d : form) {
    if (d.extent > 1) entries.push_back({d, place});
    place *= d.extent;
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.digit.stride < b.digit.stride; });
  Digits inverse;
  int64_t reached = 1;
  for (const Entry& e : entries) {
    if (e.digit.stride < reached) continue;  // repeats values already reached
    if (e.digit.stride != reached) break;
    inverse.push_back({e.digit.extent, e.place});
    reached *= e.digit.extent;
  }
  if (inverse.empty()) inverse = {{1, 0}};
  return Coalesce(FromFlat(inverse));
}

Layout LeftInverse(const Layout& layout) {
  if (!layout->IsLinear() || layout->offset != 0) {
    LAYOUT_THROW(LayoutError) << "left_inverse of " << layout->ToString()
                              << " needs a layout without swizzle, table or offset";
  }
  Digits form = LinearForm(layout, "left_inverse");
  std::vector<std::pair<Digit, int64_t>> entries;
  int64_t place = 1;
  for (const Digit& d : form) {
    if (d.extent > 1) entries.push_back({d, place});
    place *= d.extent;
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first.stride < b.first.stride; });
  Digits inverse;
  int64_t reached = 1;
  for (size_t i = 0; i < entries.size(); ++i) {
    auto [digit, at] = entries[i];
    bool nested =
        digit.stride >= reached && digit.stride > 0 && digit.stride % DigitsSize(inverse) == 0;
    if (!nested) {
      LAYOUT_THROW(LayoutError) << "left_inverse of " << layout->ToString()
                                << ": not injective, or the strides do not divide each other";
    }
    // Values between this digit's reach and the next stride are not values of the layout.
    int64_t gap = digit.stride / DigitsSize(inverse);
    if (inverse.empty()) {
      if (gap > 1) inverse.push_back({gap, 0});
    } else {
      inverse.back().extent *= gap;
    }
    inverse.push_back({digit.extent, at});
    reached = digit.stride * digit.extent;
  }
  if (inverse.empty()) inverse = {{1, 0}};
  return FromFlat(inverse);
}

Layout Concatenate(const std::vector<Layout>& layouts) {
  std::vector<IntTuple> shapes, strides;
  int64_t offset = 0;
  for (const Layout& layout : layouts) {
    LinearForm(layout, "concatenation");
    IntTuple shape = ShapeOf(layout), stride = StrideOf(layout);
    bool single = !shape.is_leaf && shape.items.size() == 1;
    shapes.push_back(single ? shape.items[0] : shape);
    strides.push_back(single ? stride.items[0] : stride);
    offset += layout->offset;
  }
  return Layout(IntTuple(std::move(shapes)), IntTuple(std::move(strides)), offset);
}

Layout LogicalProduct(const Layout& block, const Layout& copies) {
  int64_t span = Complement(block, block->Cosize())->Size() * block->Size();
  Layout rest = Complement(block, span * copies->Cosize());
  return Concatenate({Composition(rest, copies), block});
}

Layout LogicalDivide(const Layout& layout, const Layout& tiler) {
  Layout rest = Complement(tiler, layout->Size());
  return Composition(layout, Concatenate({rest, tiler}));
}

namespace {

/*! The modes (rest, tile) of each dimension. */
std::vector<std::pair<Layout, Layout>> DivideEach(const Layout& layout, const Coord& tile) {
  LinearForm(layout, "divide");
  LAYOUT_REQUIRE(tile.size() == layout->Rank() && !layout->IsFlat(), LayoutError)
      << "cannot divide layout " << layout->ToString() << " of rank " << layout->Rank()
      << " by tile " << CoordToString(tile);
  std::vector<std::pair<Layout, Layout>> parts;
  for (size_t d = 0; d < tile.size(); ++d) {
    Layout mode = FromFlat(layout->Forms()[d]);
    int64_t extent = layout->extents[d];
    LAYOUT_REQUIRE(tile[d] >= 1 && extent % tile[d] == 0, LayoutError)
        << "cannot divide layout " << layout->ToString() << " by tile " << CoordToString(tile)
        << ": " << extent << " is no multiple of " << tile[d];
    Layout inner(IntTuple(tile[d]), IntTuple(1));
    Layout rest(IntTuple(extent / tile[d]), IntTuple(tile[d]));
    parts.emplace_back(Composition(mode, rest), Composition(mode, inner));
  }
  return parts;
}

}  // namespace

Layout LogicalDivideDims(const Layout& layout, const Coord& tile) {
  std::vector<Layout> dims;
  for (auto& [rest, inner] : DivideEach(layout, tile)) dims.push_back(Concatenate({rest, inner}));
  return Concatenate(dims).WithOffset(layout->offset);
}

Layout ZippedDivide(const Layout& layout, const Coord& tile) {
  std::vector<Layout> rests, inners;
  for (auto& [rest, inner] : DivideEach(layout, tile)) {
    rests.push_back(rest);
    inners.push_back(inner);
  }
  return Concatenate({Concatenate(rests), Concatenate(inners)}).WithOffset(layout->offset);
}

Layout TiledDivide(const Layout& layout, const Coord& tile) {
  std::vector<Layout> dims, inners;
  for (auto& [rest, inner] : DivideEach(layout, tile)) {
    dims.push_back(rest);
    inners.push_back(inner);
  }
  dims.push_back(Concatenate(inners));
  return Concatenate(dims).WithOffset(layout->offset);
}

}  // namespace tilelang::layout
