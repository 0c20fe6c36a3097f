#include "layout/layout.h"

#include <algorithm>

#include "layout/throw.h"

namespace tilelang::layout {

int64_t Linearize(const Coord& shape, const Coord& coord) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + coord[d];
  return index;
}

Coord Delinearize(const Coord& shape, int64_t index) {
  Coord coord(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    coord[d] = index % shape[d];
    index /= shape[d];
  }
  return coord;
}

int64_t Product(const Coord& shape) {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::string CoordToString(const Coord& coord) {
  std::string text = "(";
  for (size_t i = 0; i < coord.size(); ++i) text += (i ? ", " : "") + std::to_string(coord[i]);
  return text + ")";
}

std::pair<IntTuple, IntTuple> EntryOf(const Digits& digits) {
  std::vector<IntTuple> shape, stride;
  for (auto it = digits.rbegin(); it != digits.rend(); ++it) {
    if (it->extent == 1) continue;
    shape.emplace_back(it->extent);
    stride.emplace_back(it->stride);
  }
  if (shape.empty()) return {IntTuple(1), IntTuple(0)};
  if (shape.size() == 1) return {shape[0], stride[0]};
  return {IntTuple(std::move(shape)), IntTuple(std::move(stride))};
}

namespace {

Digits FormOf(const IntTuple& shape, const IntTuple& stride) {
  std::vector<int64_t> extents = shape.FastestFirst(), strides = stride.FastestFirst();
  Digits digits;
  for (size_t i = 0; i < extents.size(); ++i) digits.push_back({extents[i], strides[i]});
  return digits;
}

void CheckNonNegative(const IntTuple& shape, const IntTuple& stride) {
  for (int64_t extent : shape.FastestFirst()) {
    LAYOUT_REQUIRE(extent >= 1, LayoutError)
        << "layout extents must be at least 1, but the shape is " << shape.ToString();
  }
  for (int64_t value : stride.FastestFirst()) {
    LAYOUT_REQUIRE(value >= 0, LayoutError)
        << "layout strides must not be negative, but the strides are " << stride.ToString();
  }
}

ffi::ObjectPtr<LayoutNode> MakeTree(const Coord& extents, const IntTuple& shape,
                                    const IntTuple& stride, int64_t offset, Swizzle swizzle) {
  LAYOUT_REQUIRE(offset >= 0, LayoutError)
      << "a layout's offset must not be negative, but it is " << offset;
  auto node = ffi::make_object<LayoutNode>();
  node->extents = ffi::Shape(extents);
  node->shape = shape.ToAny();
  node->stride = stride.ToAny();
  node->offset = offset;
  node->swizzle_bits = swizzle.bits;
  node->swizzle_base = swizzle.base;
  node->swizzle_shift = swizzle.shift;
  return node;
}

}  // namespace

// ---- LayoutNode ----

const std::vector<Digits>& LayoutNode::Forms() const {
  if (forms_.empty() && !IsTable()) {
    IntTuple shapes = IntTuple::FromAny(shape), strides = IntTuple::FromAny(stride);
    for (size_t i = 0; i < shapes.Rank(); ++i) {
      forms_.push_back(FormOf(shapes.At(i), strides.At(i)));
    }
  }
  return forms_;
}

int64_t LayoutNode::Unswizzled(const Coord& coord) const {
  const std::vector<Digits>& forms = Forms();
  if (IsFlat()) return offset + DigitsAt(forms[0], Linearize(Extents(), coord));
  int64_t value = offset;
  for (size_t d = 0; d < forms.size(); ++d) value += DigitsAt(forms[d], coord[d]);
  return value;
}

int64_t LayoutNode::Forward(const Coord& coord) const {
  bool inside = coord.size() == Rank();
  for (size_t d = 0; inside && d < coord.size(); ++d) {
    inside = coord[d] >= 0 && coord[d] < extents[d];
  }
  if (!inside) {
    LAYOUT_THROW(BoundsError) << "coordinate " << CoordToString(coord) << " is outside shape "
                              << CoordToString(Extents()) << " of layout " << ToString();
  }
  if (IsTable()) return table.value()[Linearize(Extents(), coord)];
  return GetSwizzle()(Unswizzled(coord));
}

int64_t LayoutNode::At(int64_t index) const {
  // Compilation asks for whole tiles element by element: the table pays from the first few on.
  constexpr int kLookupsBeforeTable = 8;
  if (values_.empty() && lookups_ < kLookupsBeforeTable) {
    ++lookups_;
    return Forward(Delinearize(Extents(), index));
  }
  if (values_.empty()) values_ = Tabulate();
  if (index < 0 || index >= static_cast<int64_t>(values_.size())) {
    LAYOUT_THROW(BoundsError) << "index " << index << " is outside layout " << ToString();
  }
  return values_[index];
}

std::vector<int64_t> LayoutNode::Tabulate() const {
  if (IsTable()) return std::vector<int64_t>(table.value().begin(), table.value().end());
  // One table for each form, then sums: each value costs an addition, not divisions.
  std::vector<int64_t> values = {offset};
  const std::vector<Digits>& forms = Forms();
  for (size_t d = 0; d < forms.size(); ++d) {
    int64_t n = IsFlat() ? Size() : extents[d];
    std::vector<int64_t> next;
    next.reserve(values.size() * n);
    std::vector<int64_t> form(n);
    for (int64_t i = 0; i < n; ++i) form[i] = DigitsAt(forms[d], i);
    for (int64_t value : values) {
      for (int64_t i = 0; i < n; ++i) next.push_back(value + form[i]);
    }
    values = std::move(next);
  }
  if (swizzle_bits != 0) {
    std::transform(values.begin(), values.end(), values.begin(), GetSwizzle());
  }
  return values;
}

int64_t LayoutNode::Cosize() const {
  if (!IsLinear()) {
    if (cosize_ == 0) {
      std::vector<int64_t> values = Tabulate();
      cosize_ = *std::max_element(values.begin(), values.end()) + 1;
    }
    return cosize_;
  }
  int64_t largest = offset;
  const std::vector<Digits>& forms = Forms();
  for (size_t d = 0; d < forms.size(); ++d) {
    largest += DigitsMax(forms[d], IsFlat() ? Size() : extents[d]);
  }
  return largest + 1;
}

bool LayoutNode::IsExact() const {
  int64_t covered = 1;
  for (const Digits& form : Forms()) covered *= DigitsSize(form);
  return !IsTable() && covered == Size();
}

bool LayoutNode::IsInjective() const {
  std::vector<int64_t> values = Tabulate();
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

std::string LayoutNode::ToString() const {
  if (formula) return formula.value()->ToString() + " on " + CoordToString(Extents());
  if (IsTable()) return "table" + CoordToString(Extents());
  std::string text =
      IntTuple::FromAny(shape).ToString() + ":" + IntTuple::FromAny(stride).ToString();
  if (offset != 0) text = std::to_string(offset) + " + " + text;
  if (swizzle_bits != 0) text = GetSwizzle().ToString() + " o " + text;
  if (IsFlat() || !IsExact()) text += " on " + CoordToString(Extents());
  return text;
}

// ---- Layout: constructors ----

Layout::Layout(const IntTuple& shape, const IntTuple& stride, int64_t offset, Swizzle swizzle) {
  LAYOUT_REQUIRE(shape.IsCongruent(stride), LayoutError)
      << "a layout's shape and stride must be nested alike, but they are " << shape.ToString()
      << " and " << stride.ToString();
  CheckNonNegative(shape, stride);
  Coord extents;
  for (size_t i = 0; i < shape.Rank(); ++i) extents.push_back(shape.At(i).Product());
  data_ = MakeTree(extents, shape, stride, offset, swizzle);
}

Layout Layout::RowMajor(const Coord& extents) {
  std::vector<Digits> forms(extents.size());
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    forms[d] = {{extents[d], stride}};
    stride *= extents[d];
  }
  return FromForms(extents, forms);
}

Layout Layout::FromForms(const Coord& extents, const std::vector<Digits>& forms, int64_t offset,
                         Swizzle swizzle) {
  TVM_FFI_ICHECK(forms.size() == extents.size() || forms.size() == 1);
  std::vector<IntTuple> shapes, strides;
  for (size_t d = 0; d < forms.size(); ++d) {
    auto [shape, stride] = EntryOf(forms[d]);
    int64_t extent = forms.size() == extents.size() ? extents[d] : Product(extents);
    TVM_FFI_ICHECK(shape.Product() >= extent) << "form too short for extent " << extent;
    shapes.push_back(std::move(shape));
    strides.push_back(std::move(stride));
  }
  IntTuple shape(std::move(shapes)), stride(std::move(strides));
  CheckNonNegative(shape, stride);
  return Layout(MakeTree(extents, shape, stride, offset, swizzle));
}

namespace {

/*! Separable or flat forms with exactly these values (values[0] is the offset). */
std::optional<std::vector<Digits>> RecoverForms(const Coord& extents,
                                                const std::vector<int64_t>& values) {
  int64_t base = values[0];
  std::vector<Digits> forms(extents.size());
  int64_t step = 1;
  bool separable = true;
  std::vector<int64_t> sums = {0};
  for (size_t d = extents.size(); separable && d-- > 0;) {
    std::vector<int64_t> column(extents[d]);
    for (int64_t i = 0; i < extents[d]; ++i) column[i] = values[i * step] - base;
    std::optional<Digits> form = RecoverDigits(column);
    separable = form.has_value();
    if (!separable) break;
    forms[d] = *form;
    std::vector<int64_t> next;
    next.reserve(sums.size() * extents[d]);
    for (int64_t value : column) {
      for (int64_t sum : sums) next.push_back(value + sum);
    }
    sums = std::move(next);
    separable = std::equal(sums.begin(), sums.end(), values.begin(),
                           [&](int64_t sum, int64_t value) { return sum + base == value; });
    step *= extents[d];
  }
  if (separable) return forms;
  std::vector<int64_t> shifted(values);
  for (int64_t& value : shifted) value -= base;
  std::optional<Digits> flat = RecoverDigits(shifted);
  if (!flat) return std::nullopt;
  return std::vector<Digits>{*flat};
}

/*! Power-of-two tables may be an XOR swizzle of a tree; tries the small family of swizzles. */
std::optional<Layout> RecoverSwizzled(const Coord& extents, const std::vector<int64_t>& values) {
  int64_t cosize = *std::max_element(values.begin(), values.end()) + 1;
  for (int64_t bits = 1; bits <= 5; ++bits) {
    for (int64_t base = 0; base <= 7; ++base) {
      for (int64_t shift = bits; (int64_t{1} << (base + shift)) < cosize; ++shift) {
        for (int64_t sign : {1, -1}) {
          Swizzle swizzle{bits, base, sign * shift};
          std::vector<int64_t> plain(values.size());
          std::transform(values.begin(), values.end(), plain.begin(), swizzle);
          auto forms = RecoverForms(extents, plain);
          if (forms) return Layout::FromForms(extents, *forms, plain[0], swizzle);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Layout Layout::FromValues(const Coord& extents, const std::vector<int64_t>& values,
                          ffi::Optional<Formula> formula) {
  LAYOUT_REQUIRE(Product(extents) == static_cast<int64_t>(values.size()) && !values.empty(),
                 LayoutError)
      << "a layout of shape " << CoordToString(extents) << " needs " << Product(extents)
      << " values, but got " << values.size();
  LAYOUT_REQUIRE(*std::min_element(values.begin(), values.end()) >= 0, LayoutError)
      << "a layout of shape " << CoordToString(extents) << " has negative values";
  if (auto forms = RecoverForms(extents, values)) return FromForms(extents, *forms, values[0]);
  if (auto swizzled = RecoverSwizzled(extents, values)) return *swizzled;
  auto node = ffi::make_object<LayoutNode>();
  node->extents = ffi::Shape(extents);
  node->table = ffi::Shape(values);
  node->formula = std::move(formula);
  return Layout(node);
}

// ---- Layout: reshaping ----

namespace {

int64_t Moved(int64_t index, int64_t by) { return index + by; }
ir::Expr Moved(const ir::Expr& index, int64_t by) {
  return by == 0 ? index : index + ir::Const(index.dtype(), by);
}

/*! The formula of a layout of `rank` dimensions: `value` of this one's at old_coord(coord). */
template <typename OldCoord, typename Value>
ffi::Optional<Formula> Reformulated(const LayoutNode* layout, size_t rank, OldCoord old_coord,
                                    Value value) {
  if (!layout->formula) return std::nullopt;
  return Formula::Of(rank, [&](const std::vector<ir::Expr>& coord) {
    return value(layout->formula.value()->At(old_coord(coord)), coord);
  });
}

/*! The same value at old_coord(coord). */
template <typename OldCoord>
ffi::Optional<Formula> Reformulated(const LayoutNode* layout, size_t rank, OldCoord old_coord) {
  return Reformulated(layout, rank, old_coord,
                      [](const ir::Expr& value, const std::vector<ir::Expr>&) { return value; });
}

/*!
 * `layout` re-indexed: the new value at `coord` is the old one at old_coord(coord), a function of
 * numbers and of expressions.
 */
template <typename OldCoord>
Layout Reindexed(const LayoutNode* layout, const Coord& extents, OldCoord old_coord) {
  std::vector<int64_t> old = layout->Tabulate(), values(Product(extents));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = old[Linearize(layout->Extents(), old_coord(Delinearize(extents, i)))];
  }
  return Layout::FromValues(extents, values, Reformulated(layout, extents.size(), old_coord));
}

}  // namespace

Layout Layout::Transpose(const std::vector<size_t>& axes) const {
  const LayoutNode* self = get();
  Coord extents;
  for (size_t axis : axes) extents.push_back(self->extents[axis]);
  if (!self->IsTable() && !self->IsFlat()) {
    std::vector<Digits> forms;
    for (size_t axis : axes) forms.push_back(self->Forms()[axis]);
    return FromForms(extents, forms, self->offset, self->GetSwizzle());
  }
  return Reindexed(self, extents, [&](const auto& coord) {
    auto old = coord;
    for (size_t d = 0; d < axes.size(); ++d) old[axes[d]] = coord[d];
    return old;
  });
}

Layout Layout::Stack(int64_t copies) const {
  const LayoutNode* self = get();
  int64_t period = self->GetSwizzle().Period();
  int64_t stride = (self->Cosize() + period - 1) / period * period;
  Coord extents = {copies};
  for (int64_t extent : self->extents) extents.push_back(extent);
  if (!self->IsTable() && !self->IsFlat()) {
    std::vector<Digits> forms = {{{copies, stride}}};
    forms.insert(forms.end(), self->Forms().begin(), self->Forms().end());
    return FromForms(extents, forms, self->offset, self->GetSwizzle());
  }
  std::vector<int64_t> values;
  for (int64_t copy = 0; copy < copies; ++copy) {
    for (int64_t value : self->Tabulate()) values.push_back(copy * stride + value);
  }
  auto copy_of = [](const std::vector<ir::Expr>& coord) {
    return std::vector<ir::Expr>(coord.begin() + 1, coord.end());
  };
  auto after = [&](const ir::Expr& value, const std::vector<ir::Expr>& coord) {
    return coord[0] * ir::Const(coord[0].dtype(), stride) + value;
  };
  return FromValues(extents, values, Reformulated(self, extents.size(), copy_of, after));
}

Layout Layout::Slice(const Coord& begin, const Coord& extents) const {
  const LayoutNode* self = get();
  bool inside = begin.size() == self->Rank() && extents.size() == self->Rank();
  for (size_t d = 0; inside && d < self->Rank(); ++d) {
    inside = begin[d] >= 0 && extents[d] >= 1 && begin[d] + extents[d] <= self->extents[d];
  }
  if (!inside) {
    LAYOUT_THROW(BoundsError) << "region at " << CoordToString(begin) << " of extents "
                              << CoordToString(extents) << " is not inside shape "
                              << CoordToString(self->Extents());
  }
  if (!self->IsTable() && !self->IsFlat()) {
    std::vector<Digits> forms;
    int64_t offset = self->offset;
    for (size_t d = 0; d < self->Rank(); ++d) {
      std::vector<int64_t> column(extents[d]);
      int64_t base = DigitsAt(self->Forms()[d], begin[d]);
      for (int64_t i = 0; i < extents[d]; ++i) {
        column[i] = DigitsAt(self->Forms()[d], begin[d] + i) - base;
      }
      std::optional<Digits> form = RecoverDigits(column);
      if (!form) break;
      forms.push_back(*form);
      offset += base;
    }
    if (forms.size() == self->Rank()) {
      return FromForms(extents, forms, offset, self->GetSwizzle());
    }
  }
  return Reindexed(self, extents, [&](auto coord) {
    for (size_t d = 0; d < coord.size(); ++d) coord[d] = Moved(coord[d], begin[d]);
    return coord;
  });
}

namespace {

/*! Separable forms under a shape that differs in dimensions of extent 1 only. */
std::optional<std::vector<Digits>> ReshapedForms(const LayoutNode* layout, const Coord& extents) {
  if (layout->IsTable() || layout->IsFlat()) return std::nullopt;
  std::vector<Digits> forms(extents.size());
  size_t from = 0;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    while (from < layout->Rank() && layout->extents[from] == 1) ++from;
    if (from == layout->Rank() || layout->extents[from] != extents[d]) return std::nullopt;
    forms[d] = layout->Forms()[from++];
  }
  return forms;
}

}  // namespace

Layout Layout::Reshape(const Coord& extents) const {
  LAYOUT_REQUIRE(Product(extents) == get()->Size(), LayoutError)
      << "cannot reshape layout " << get()->ToString() << " of size " << get()->Size()
      << " to shape " << CoordToString(extents);
  if (auto forms = ReshapedForms(get(), extents)) {
    return FromForms(extents, *forms, get()->offset, get()->GetSwizzle());
  }
  if (get()->IsFlat() || (get()->Rank() == 1 && !get()->IsTable())) {
    return FromForms(extents, {get()->Forms()[0]}, get()->offset, get()->GetSwizzle());
  }
  auto old_coord = [&](const std::vector<ir::Expr>& coord) {
    return DelinearizedExprs(get()->Extents(), LinearIndexExpr(extents, coord));
  };
  return FromValues(extents, get()->Tabulate(), Reformulated(get(), extents.size(), old_coord));
}

Layout Layout::WithSwizzle(Swizzle swizzle) const {
  LAYOUT_REQUIRE(get()->IsLinear(), LayoutError)
      << "layout " << get()->ToString() << " cannot take " << swizzle.ToString()
      << ": it already has a swizzle or is a table";
  return FromForms(get()->Extents(), get()->Forms(), get()->offset, swizzle);
}

Layout Layout::WithOffset(int64_t offset) const {
  if (get()->IsLinear()) {
    return FromForms(get()->Extents(), get()->Forms(), get()->offset + offset);
  }
  std::vector<int64_t> values = get()->Tabulate();
  for (int64_t& value : values) value += offset;
  auto same = [](const std::vector<ir::Expr>& coord) { return coord; };
  auto moved = [&](const ir::Expr& value, const std::vector<ir::Expr>&) {
    return Moved(value, offset);
  };
  return FromValues(get()->Extents(), values, Reformulated(get(), get()->Rank(), same, moved));
}

bool Layout::SameMap(const Layout& other) const {
  const LayoutNode *a = get(), *b = other.get();
  if (a == b) return true;
  if (a->Extents() != b->Extents()) return false;
  bool comparable = !a->IsTable() && !b->IsTable() && a->IsFlat() == b->IsFlat();
  if (comparable && a->GetSwizzle() == b->GetSwizzle()) {
    return a->offset == b->offset && CanonicalForms(a) == CanonicalForms(b);
  }
  return a->Tabulate() == b->Tabulate();
}

std::vector<Digits> CanonicalForms(const LayoutNode* layout) {
  std::vector<Digits> forms;
  for (size_t d = 0; d < layout->Forms().size(); ++d) {
    int64_t extent = layout->IsFlat() ? layout->Size() : layout->extents[d];
    forms.push_back(Canonical(layout->Forms()[d], extent));
  }
  return forms;
}

std::optional<std::vector<Digits>> SeparableForms(const LayoutNode* layout) {
  if (!layout->IsLinear()) return std::nullopt;
  if (!layout->IsFlat()) return CanonicalForms(layout);
  std::vector<Digits> dims(layout->Rank());
  int64_t stride = 1;
  for (size_t d = layout->Rank(); d-- > 0;) {
    dims[d] = {{layout->extents[d], stride}};
    stride *= layout->extents[d];
  }
  auto composed = ComposeDigits(layout->Forms()[0], dims, 0);
  if (!composed) return std::nullopt;
  return composed->first;
}

Layout AddLayouts(const Layout& a, const Layout& b) {
  TVM_FFI_ICHECK(a->Extents() == b->Extents());
  auto left = SeparableForms(a.get()), right = SeparableForms(b.get());
  if (left && right) {
    std::vector<Digits> forms;
    for (size_t d = 0; d < left->size(); ++d) {
      std::optional<Digits> form = AddDigits((*left)[d], (*right)[d]);
      if (!form) break;
      forms.push_back(*form);
    }
    if (forms.size() == left->size()) {
      return Layout::FromForms(a->Extents(), forms, a->offset + b->offset);
    }
  }
  std::vector<int64_t> values = a->Tabulate(), other = b->Tabulate();
  for (size_t i = 0; i < values.size(); ++i) values[i] += other[i];
  return Layout::FromValues(a->Extents(), values);
}

}  // namespace tilelang::layout
