#include "layout/tmem_view.h"

#include <algorithm>

#include "layout/throw.h"

namespace tilelang::layout {

TmemLayout Reinterpret(const TmemLayout& layout, int64_t bits) {
  int64_t held = layout->element_bits;
  if (bits == held) return layout;
  auto refuse = [&] {
    LAYOUT_THROW(LayoutError) << "cannot reinterpret " << layout->ToString() << " as elements of "
                              << bits << " bits: those that make one do not follow each other";
  };
  Coord extents = layout->Extents();
  if (extents.back() * held % bits != 0) refuse();
  std::vector<int64_t> lanes = layout->lane->Tabulate();
  std::vector<int64_t> places = layout->bit->Tabulate();
  // Runs of elements become parts of them, or wholes.
  int64_t run = std::max<int64_t>(bits / held, 1);
  int64_t parts = std::max<int64_t>(held / bits, 1);
  std::vector<int64_t> new_lanes;
  std::vector<int64_t> new_places;
  for (size_t i = 0; i < lanes.size(); i += run) {
    for (int64_t n = 1; n < run; ++n) {
      bool next = lanes[i + n] == lanes[i] && places[i + n] == places[i] + n * held;
      if (!next) refuse();
    }
    for (int64_t n = 0; n < parts; ++n) {
      new_lanes.push_back(lanes[i]);
      new_places.push_back(places[i] + n * bits);
    }
  }
  extents.back() = extents.back() * parts / run;
  return TmemLayout(Layout::FromValues(extents, new_lanes), Layout::FromValues(extents, new_places),
                    bits, layout->copies);
}

}  // namespace tilelang::layout
