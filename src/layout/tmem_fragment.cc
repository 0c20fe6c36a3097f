// The fragments in which tcgen05 access shapes move a tile of tensor memory.
#include <algorithm>

#include "layout/algebra.h"
#include "layout/tmem_copy.h"
#include "target/warp.h"

namespace tilelang::layout {

namespace {

/*! The part of tensor memory that a tile takes, and how its elements fill registers. */
struct Footprint {
  int64_t first_lane = 0;      // 128 * CTA, plus 16 for tiles in the upper 16 of each 32 lanes
  bool half_quarters = false;  // only 16 of each 32 lanes
  int64_t quarters = 0;        // warps that a warpgroup needs
  int64_t first_bit = 0;
  int64_t columns = 0;
  bool pack = false;
};

/*!
 * The tile's `bit` as if its parts lay side by side: columns [0, n) of several blocks of rows have
 * other columns between them, for which there shall be no registers.
 */
Layout WithoutGaps(const TmemLayoutNode* tmem) {
  if (!tmem->bit->IsLinear() || tmem->bit->IsFlat()) return tmem->bit;
  std::vector<Digits> forms = CanonicalForms(tmem->bit.get());
  std::vector<Digit*> digits;
  for (Digits& form : forms) {
    for (Digit& digit : form) {
      if (digit.stride > 0) digits.push_back(&digit);
    }
  }
  std::sort(digits.begin(), digits.end(),
            [](const Digit* a, const Digit* b) { return a->stride < b->stride; });
  int64_t reached = tmem->element_bits;
  for (Digit* digit : digits) {
    // Parts begin with whole columns.
    int64_t next = (reached + kTmemColumnBits - 1) / kTmemColumnBits * kTmemColumnBits;
    digit->stride = std::min(digit->stride, next);
    reached = digit->stride * digit->extent;
  }
  return Layout::FromForms(tmem->bit->Extents(), forms, tmem->bit->offset);
}

/*! Fills the footprint; returns why the tile is out of reach, or nothing. */
std::string Measure(const TmemLayoutNode* tmem, const Layout& bit, Footprint* print) {
  std::vector<int64_t> lanes = tmem->lane->Tabulate(), bits = bit->Tabulate();
  auto [low, high] = std::minmax_element(lanes.begin(), lanes.end());
  int64_t cta = *low / kTmemLanes;
  if (*high / kTmemLanes != cta) return "the tile spans both CTAs of a pair";
  auto all_in_half = [&](int64_t half) {
    return std::all_of(lanes.begin(), lanes.end(), [&](int64_t l) { return l / 16 % 2 == half; });
  };
  bool upper = all_in_half(1);
  print->half_quarters = upper || all_in_half(0);
  print->first_lane = cta * kTmemLanes + (upper ? 16 : 0);
  int64_t top = *high % kTmemLanes + tmem->copies->Cosize() - 1;
  print->quarters = top / kTmemLanesPerWarp + 1;
  auto [first, last] = std::minmax_element(bits.begin(), bits.end());
  if (*first % kTmemColumnBits != 0) return "the tile begins inside a 32-bit column";
  print->first_bit = *first;
  print->columns = (*last - *first) / kTmemColumnBits + 1;
  print->pack = tmem->IsUnpacked();
  return "";
}

/*! Digits of one tensor-memory index, sent to threads and to registers. */
struct Route {
  Digits thread, reg;

  void Add(int64_t extent, int64_t thread_stride, int64_t reg_stride) {
    if (extent == 1) return;
    thread.push_back({extent, thread_stride});
    reg.push_back({extent, reg_stride});
  }
  Layout Thread() const { return Layout::FromForms({DigitsSize(thread)}, {thread}); }
  Layout Reg() const { return Layout::FromForms({DigitsSize(reg)}, {reg}); }
};

/*! The atom's digits that move along lanes (or along columns), smallest step first. */
std::vector<TmemDigit> DigitsAlong(const TmemAtom& atom, int64_t TmemDigit::* axis) {
  std::vector<TmemDigit> digits;
  for (const TmemDigit& digit : atom.digits) {
    if (digit.*axis > 0) digits.push_back(digit);
  }
  std::sort(digits.begin(), digits.end(),
            [&](const TmemDigit& a, const TmemDigit& b) { return a.*axis < b.*axis; });
  return digits;
}

Route RouteLanes(const TmemAtom& atom, const Footprint& print, int64_t per_reg,
                 int64_t warp_columns) {
  Route route;
  for (const TmemDigit& d : DigitsAlong(atom, &TmemDigit::lane)) {
    route.Add(d.extent, d.on_thread ? d.source : 0, d.on_thread ? 0 : d.source * per_reg);
  }
  // A 16-lane shape reaches the upper lanes of a quarter by further instructions.
  int64_t regs_of_half = warp_columns / 2 * per_reg;
  if (atom.lanes == 16) route.Add(2, 0, print.half_quarters ? 0 : regs_of_half);
  route.Add(kTmemLanes / kTmemLanesPerWarp, 32, 0);
  return route;
}

Route RouteBits(const TmemAtom& atom, const Footprint& print, int64_t element_bits,
                int64_t warp_columns, int64_t warpgroups) {
  Route route;
  route.Add(print.pack ? kTmemColumnBits : element_bits, 0, 0);
  int64_t per_reg = kTmemColumnBits / element_bits;
  route.Add(per_reg, 0, 1);
  bool halves = atom.shape == TmemShape::k16x32bx2;
  std::vector<TmemDigit> columns = DigitsAlong(atom, &TmemDigit::column);
  // The last digit is the register's, and runs on through the repeats.
  columns.back().extent = warp_columns / columns.back().column / (halves ? 2 : 1);
  for (const TmemDigit& d : columns) {
    route.Add(d.extent, d.on_thread ? d.source : 0, d.on_thread ? 0 : d.source * per_reg);
  }
  if (halves) route.Add(2, 16, 0);
  route.Add(warpgroups, 128, 0);
  return route;
}

std::string CheckThreads(const Footprint& print, const TmemCopyOptions& options) {
  int64_t threads = options.num_threads;
  if (threads % kWarp != 0 || (threads > kWarpgroup && threads % kWarpgroup != 0) ||
      threads < kWarp) {
    return std::to_string(threads) + " threads are neither whole warpgroups nor whole warps of one";
  }
  if (options.thread_begin % kWarpgroup != 0) {
    return "the threads begin at " + std::to_string(options.thread_begin) +
           ", which is no multiple of 128";
  }
  if (print.quarters * 32 > threads) {
    return "the tile reaches lane " + std::to_string(print.quarters * 32 - 1) + ", but " +
           std::to_string(threads) + " threads reach only lanes below " + std::to_string(threads);
  }
  return "";
}

}  // namespace

TmemFragment FragmentForShape(const TmemLayout& tmem, TmemShape shape,
                              const TmemCopyOptions& options) {
  const TmemAtom& atom = GetTmemAtom(shape);
  Footprint print;
  Layout dense = WithoutGaps(tmem.get());
  std::string why = Measure(tmem.get(), dense, &print);
  if (why.empty()) why = CheckThreads(print, options);
  if (!why.empty()) return {std::nullopt, why};
  int64_t warpgroups = std::max<int64_t>(1, options.num_threads / kWarpgroup);
  int64_t step = atom.columns * (print.pack ? 2 : 1) * warpgroups;
  if (shape == TmemShape::k16x32bx2) step *= 2;
  if (print.columns % step != 0) {
    return {std::nullopt, std::string(atom.name) + " moves " + std::to_string(step) +
                              " columns at a time over " + std::to_string(warpgroups) +
                              " warpgroup(s), but the tile has " + std::to_string(print.columns)};
  }
  int64_t bits = tmem->element_bits, per_reg = kTmemColumnBits / bits;
  int64_t warp_columns = print.columns / (print.pack ? 2 : 1) / warpgroups;
  Route lanes = RouteLanes(atom, print, per_reg, warp_columns);
  Route columns = RouteBits(atom, print, bits, warp_columns, warpgroups);
  Layout lane = tmem->lane.WithOffset(-print.first_lane);
  Layout bit = dense.WithOffset(-print.first_bit);
  auto column_thread = TryComposition(columns.Thread(), bit);
  auto column_reg = TryComposition(columns.Reg(), bit);
  if (!column_thread || !column_reg) {
    return {std::nullopt, std::string(atom.name) + " over " + std::to_string(warpgroups) +
                              " warpgroup(s) does not divide the tile's parts of columns"};
  }
  Layout thread = AddLayouts(Composition(lanes.Thread(), lane), *column_thread);
  Layout reg = AddLayouts(Composition(lanes.Reg(), lane), *column_reg);
  // Copies lie whole quarters of lanes apart, so other warps hold them.
  Fragment fragment(thread, reg, tmem->copies);
  return {fragment.BindThreads(options.thread_begin), ""};
}

namespace {

/*! The fragments in which some shape moves the tile, natural ones first, or why there is none. */
struct Candidate {
  Fragment fragment;
  bool beside;  // its best plan loads cells beside the tile
};
std::vector<Candidate> Candidates(const TmemLayout& tmem, const TmemCopyOptions& options,
                                  TmemDirection direction, size_t limit, std::string* reasons) {
  using enum TmemShape;
  std::vector<Candidate> fitting;
  for (TmemShape shape : {k32x32b, k16x32bx2, k16x256b, k16x128b, k16x64b}) {
    TmemFragment found = FragmentForShape(tmem, shape, options);
    if (found.fragment) {
      TmemCopyPlans plans = PlanTmemCopy(tmem, *found.fragment, direction, options);
      if (!plans.plans.empty()) fitting.push_back({*found.fragment, plans.plans[0]->beside});
      if (fitting.size() == limit) return fitting;
      found.reason = plans.reason;
    }
    *reasons +=
        (reasons->empty() ? "" : "; ") + std::string(GetTmemAtom(shape).name) + ": " + found.reason;
  }
  return fitting;
}

}  // namespace

TmemFragment NaturalTmemFragment(const TmemLayout& tmem, const TmemCopyOptions& options,
                                 TmemDirection direction) {
  std::string reasons;
  std::vector<Candidate> found = Candidates(tmem, options, direction, 1, &reasons);
  if (found.empty()) return {std::nullopt, reasons};
  return {found.front().fragment, "", found.front().beside};
}

TmemFragment NearestTmemFragment(const TmemLayout& tmem, const Fragment& fragment,
                                 TmemDirection direction, const TmemCopyOptions& options) {
  std::string reasons;
  std::optional<Fragment> nearest;
  std::pair<bool, Conversion> least(false, Conversion::kIdentical);
  for (const auto& [candidate, beside] :
       Candidates(tmem, options, direction, kNumTmemShapes, &reasons)) {
    bool store = direction == TmemDirection::kStore;
    std::pair cost(beside, store ? ConversionBetween(fragment, candidate)
                                 : ConversionBetween(candidate, fragment));
    if (nearest && cost >= least) continue;
    nearest = candidate;
    least = cost;
  }
  return {nearest, nearest ? "" : reasons, least.first};
}

}  // namespace tilelang::layout
