#include "layout/fragment.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "layout/throw.h"
#include "target/warp.h"

namespace tilelang::layout {

// ---- FragmentNode ----

std::pair<int64_t, int64_t> FragmentNode::Forward(const Coord& coord, int64_t rep) const {
  return {thread->Forward(coord) + replica->Forward({rep}), reg->Forward(coord)};
}

const std::vector<int64_t>& FragmentNode::InverseTable() const {
  if (!inverse_.empty()) return inverse_;
  int64_t regs = RegsPerThread();
  std::vector<int64_t> slots(NumThreads() * regs, -1);
  std::vector<int64_t> threads = thread->Tabulate(), registers = reg->Tabulate();
  std::vector<int64_t> copies = replica->Tabulate();
  int64_t size = Size();
  for (size_t rep = 0; rep < copies.size(); ++rep) {
    for (int64_t i = 0; i < size; ++i) {
      int64_t& slot = slots[(threads[i] + copies[rep]) * regs + registers[i]];
      if (slot >= 0) {
        LAYOUT_THROW(LayoutError) << "fragment puts elements "
                                  << CoordToString(Delinearize(Extents(), slot % size)) << " and "
                                  << CoordToString(Delinearize(Extents(), i))
                                  << " into the same register: " << ToString();
      }
      slot = static_cast<int64_t>(rep) * size + i;
    }
  }
  inverse_ = std::move(slots);
  return inverse_;
}

std::optional<std::pair<Coord, int64_t>> FragmentNode::Inverse(int64_t thread_index,
                                                               int64_t reg_index) const {
  const std::vector<int64_t>& slots = InverseTable();
  int64_t regs = RegsPerThread();
  if (thread_index < 0 || reg_index < 0 || reg_index >= regs || thread_index >= NumThreads()) {
    LAYOUT_THROW(BoundsError) << "slot (thread " << thread_index << ", register " << reg_index
                              << ") is outside fragment " << ToString();
  }
  int64_t content = slots[thread_index * regs + reg_index];
  if (content < 0) return std::nullopt;
  return std::make_pair(Delinearize(Extents(), content % Size()), content / Size());
}

bool FragmentNode::IsBijective() const {
  const std::vector<int64_t>& slots = InverseTable();
  return std::find(slots.begin(), slots.end(), -1) == slots.end();
}

namespace {

/*! Every aligned group of `width` along the last (contiguous) axis is a register run. */
bool HasRuns(const FragmentNode* fragment, size_t dim, int64_t width) {
  std::vector<int64_t> threads = fragment->thread->Tabulate(), regs = fragment->reg->Tabulate();
  Coord extents = fragment->Extents();
  int64_t step = 1;
  for (size_t d = extents.size(); --d > dim;) step *= extents[d];
  for (int64_t i = 0; i < fragment->Size(); ++i) {
    int64_t within = (i / step) % extents[dim] % width;
    int64_t first = i - within * step;
    if (threads[i] != threads[first] || regs[i] != regs[first] + within) return false;
    if (within == 0 && regs[i] % width != 0) return false;
  }
  return true;
}

}  // namespace

int64_t FragmentNode::VectorWidth(size_t dim) const {
  LAYOUT_REQUIRE(dim < Rank(), BoundsError)
      << "dimension " << dim << " of a fragment of rank " << Rank();
  int64_t bound = std::gcd(Extents()[dim], RegsPerThread());
  auto threads = SeparableForms(thread.get()), regs = SeparableForms(reg.get());
  if (threads && regs) {
    // The run ends where the register stride changes or the thread begins to.
    const Digits &t = (*threads)[dim], &r = (*regs)[dim];
    if (r.empty() || r[0].stride != 1) return 1;
    bound = std::gcd(bound, r[0].extent);
    if (!t.empty()) bound = t[0].stride != 0 ? 1 : std::gcd(bound, t[0].extent);
    bound = std::gcd(bound, reg->offset);
    for (size_t d = 0; d < regs->size(); ++d) {
      for (size_t k = d == dim ? 1 : 0; k < (*regs)[d].size(); ++k) {
        bound = std::gcd(bound, (*regs)[d][k].stride);
      }
    }
    return bound;
  }
  for (int64_t width = bound; width > 1; --width) {
    if (bound % width == 0 && HasRuns(this, dim, width)) return width;
  }
  return 1;
}

std::string FragmentNode::ToString() const {
  std::string text = "Fragment" + CoordToString(Extents()) + "{thread " + thread->ToString() +
                     ", reg " + reg->ToString();
  if (Replicas() > 1) text += ", replica " + replica->ToString();
  return text + "}";
}

// ---- Fragment: constructors ----

Fragment::Fragment(Layout thread, Layout reg, std::optional<Layout> replica) {
  if (!replica) replica = Layout::RowMajor({1});
  LAYOUT_REQUIRE(thread->Extents() == reg->Extents() && (*replica)->Rank() == 1, LayoutError)
      << "a fragment's thread and register layouts need one shape, but they are on "
      << CoordToString(thread->Extents()) << " and " << CoordToString(reg->Extents());
  auto node = ffi::make_object<FragmentNode>(std::move(thread), std::move(reg), *replica);
  data_ = node;
  if (!InverseDigits(*this)) node->InverseTable();  // raises when two elements share a slot
}

Fragment Fragment::Partition(const Coord& extents, int64_t threads, int64_t vector) {
  LAYOUT_REQUIRE(threads >= 1 && vector >= 1, LayoutError)
      << "cannot partition over " << threads << " threads by vectors of " << vector;
  int64_t size = Product(extents);
  int64_t tiles = (size + threads * vector - 1) / (threads * vector);
  Digits thread = Canonical({{vector, 0}, {threads, 1}, {tiles, 0}}, size);
  Digits reg = Canonical({{vector, 1}, {threads, 0}, {tiles, vector}}, size);
  auto build = [&](const Digits& form) {
    Layout flat = Layout::FromForms(extents, {form});
    auto split = SeparableForms(flat.get());
    return split ? Layout::FromForms(extents, *split) : flat;
  };
  return Fragment(build(thread), build(reg));
}

Fragment Fragment::Replicated(const Coord& extents, int64_t threads) {
  std::vector<Digits> none;
  for (int64_t extent : extents) none.push_back({{extent, 0}});
  return Fragment(Layout::FromForms(extents, none), Layout::RowMajor(extents),
                  Layout::RowMajor({threads}));
}

// ---- Fragment: operations ----

namespace {

/*! `layout` continued along `dim`: n blocks, `step` apart. */
Layout Continued(const Layout& layout, size_t dim, int64_t n, int64_t step) {
  Coord extents = layout->Extents();
  int64_t old_extent = extents[dim];
  auto forms = SeparableForms(layout.get());
  bool exact = forms && DigitsSize((*forms)[dim]) == old_extent;
  if (forms && (*forms)[dim].empty()) {
    (*forms)[dim] = {{old_extent, 0}};
    exact = true;
  }
  extents[dim] *= n;
  if (exact) {
    (*forms)[dim].push_back({n, step});
    return Layout::FromForms(extents, *forms, layout->offset);
  }
  std::vector<int64_t> values(Product(extents));
  for (size_t i = 0; i < values.size(); ++i) {
    Coord coord = Delinearize(extents, i);
    int64_t block = coord[dim] / old_extent;
    coord[dim] %= old_extent;
    values[i] = layout->Forward(coord) + block * step;
  }
  return Layout::FromValues(extents, values);
}

}  // namespace

Fragment Fragment::Repeat(size_t dim, int64_t n, bool on_threads) const {
  LAYOUT_REQUIRE(dim < get()->Rank() && n >= 1, LayoutError)
      << "cannot repeat dimension " << dim << " " << n << " times in " << get()->ToString();
  int64_t thread_step = on_threads ? get()->NumThreads() : 0;
  int64_t reg_step = on_threads ? 0 : get()->RegsPerThread();
  return Fragment(Continued(get()->thread, dim, n, thread_step),
                  Continued(get()->reg, dim, n, reg_step), get()->replica);
}

Fragment Fragment::Replicate(int64_t n) const {
  LAYOUT_REQUIRE(n >= 1, LayoutError) << "cannot replicate a fragment " << n << " times";
  return Fragment(get()->thread, get()->reg, Continued(get()->replica, 0, n, get()->NumThreads()));
}

Fragment Fragment::BindThreads(int64_t begin) const {
  return Fragment(get()->thread.WithOffset(begin), get()->reg, get()->replica);
}

Fragment Fragment::CondenseRegisters() const {
  std::vector<int64_t> values = get()->reg->Tabulate();
  auto [least, largest] = std::minmax_element(values.begin(), values.end());
  int64_t first = *least;
  std::vector<int64_t> rank(*largest - first + 1, 0);
  for (int64_t value : values) rank[value - first] = 1;
  // The values below each one.
  std::exclusive_scan(rank.begin(), rank.end(), rank.begin(), int64_t{0});
  bool changed = false;
  for (int64_t& value : values) {
    int64_t condensed = rank[value - first];
    changed |= condensed != value;
    value = condensed;
  }
  if (!changed) return *this;
  return Fragment(get()->thread, Layout::FromValues(get()->Extents(), values), get()->replica);
}

Fragment Fragment::Transpose(const std::vector<size_t>& axes) const {
  return Fragment(get()->thread.Transpose(axes), get()->reg.Transpose(axes), get()->replica);
}

Fragment Fragment::Slice(const Coord& begin, const Coord& extents) const {
  return Fragment(get()->thread.Slice(begin, extents), get()->reg.Slice(begin, extents),
                  get()->replica);
}

Fragment Fragment::Reshape(const Coord& extents) const {
  return Fragment(get()->thread.Reshape(extents), get()->reg.Reshape(extents), get()->replica);
}

namespace {

/*! Coordinates of the shape without `dim`, or with it of extent 1. */
Coord ReducedExtents(const Coord& extents, size_t dim, bool keep_dim) {
  Coord reduced(extents);
  reduced[dim] = 1;
  if (!keep_dim && extents.size() > 1) reduced.erase(reduced.begin() + dim);
  return reduced;
}

/*! Replicas of the reduction: the old ones and the distinct thread offsets along `dim`. */
Layout ReducedReplicas(const FragmentNode* fragment, size_t dim) {
  Coord extents = fragment->Extents();
  auto forms = SeparableForms(fragment->thread.get());
  std::vector<int64_t> offsets;
  if (!forms) {
    LAYOUT_THROW(LayoutError) << "cannot reduce dimension " << dim << " of " << fragment->ToString()
                              << ": its thread map does not split into dimensions";
  }
  for (int64_t i = 0; i < extents[dim]; ++i) offsets.push_back(DigitsAt((*forms)[dim], i));
  std::vector<int64_t> threads;
  for (int64_t offset : offsets) {
    for (int64_t copy : fragment->replica->Tabulate()) threads.push_back(offset + copy);
  }
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return Layout::FromValues({static_cast<int64_t>(threads.size())}, threads);
}

}  // namespace

Fragment Fragment::ReduceDim(size_t dim, bool keep_dim) const {
  LAYOUT_REQUIRE(dim < get()->Rank(), BoundsError)
      << "cannot reduce dimension " << dim << " of a fragment of rank " << get()->Rank();
  Coord begin(get()->Rank(), 0), row = get()->Extents();
  row[dim] = 1;
  Coord reduced = ReducedExtents(get()->Extents(), dim, keep_dim);
  Layout replica = ReducedReplicas(get(), dim);
  // Along the reduced dimension every register of an element collapses into its first one.
  Layout thread = get()->thread.Slice(begin, row).Reshape(reduced);
  Layout reg = get()->reg.Slice(begin, row).Reshape(reduced);
  return Fragment(thread, reg, replica).CondenseRegisters();
}

namespace {

/*! For each element the sorted threads that hold it, `Replicas()` of them. */
std::vector<int64_t> Holders(const FragmentNode* fragment) {
  std::vector<int64_t> threads = fragment->thread->Tabulate();
  std::vector<int64_t> copies = fragment->replica->Tabulate(), holders;
  std::sort(copies.begin(), copies.end());
  for (int64_t thread : threads) {
    for (int64_t copy : copies) holders.push_back(thread + copy);
  }
  return holders;
}

}  // namespace

bool Fragment::SameMap(const Fragment& other) const {
  if (get() == other.get()) return true;
  if (get()->Extents() != other->Extents() || get()->Replicas() != other->Replicas()) return false;
  if (!get()->reg.SameMap(other->reg)) return false;
  if (get()->thread.SameMap(other->thread) && get()->replica.SameMap(other->replica)) return true;
  return Holders(get()) == Holders(other.get());
}

Conversion ConversionBetween(const Fragment& from, const Fragment& to) {
  LAYOUT_REQUIRE(from->Extents() == to->Extents(), LayoutError)
      << "cannot convert between fragments of different shapes: " << from->ToString() << " and "
      << to->ToString();
  if (from.SameMap(to)) return Conversion::kIdentical;
  std::vector<int64_t> source = Holders(from.get()), target = Holders(to.get());
  int64_t n = from->Replicas(), m = to->Replicas();
  bool same_thread = true;
  for (int64_t i = 0; i < from->Size(); ++i) {
    auto begin = source.begin() + i * n, end = begin + n;
    for (int64_t k = 0; k < m; ++k) {
      int64_t thread = target[i * m + k];
      if (std::binary_search(begin, end, thread)) continue;
      same_thread = false;
      auto in_warp = std::lower_bound(begin, end, thread / kWarp * kWarp);
      if (in_warp == end || *in_warp / kWarp != thread / kWarp) return Conversion::kShared;
    }
  }
  if (!same_thread) return Conversion::kShuffle;
  return from->reg.SameMap(to->reg) ? Conversion::kIdentical : Conversion::kRegisters;
}

}  // namespace tilelang::layout
