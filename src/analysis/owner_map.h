// The thread that accesses each element of a buffer.
#ifndef TILELANG_ANALYSIS_OWNER_MAP_H_
#define TILELANG_ANALYSIS_OWNER_MAP_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tilelang::analysis {

// A thread touches consecutive elements, as many as all touches of one map.
struct ThreadElements {
  int64_t iteration;
  int64_t element;  // the first
  int32_t thread;
};

// The thread that accesses each unit of consecutive elements. For tensor memory: the warp that
// accesses each cell of 16 lanes in a column.
struct OwnerMap {
  static constexpr int32_t kNobody = -1;
  static constexpr int32_t kReplicated = -2;  // several threads in one iteration
  static constexpr int32_t kMany = -3;        // different threads in different iterations
  int64_t first = 0;
  int64_t unit = 1;
  // The begins of the units in ascending order. Empty if the units are adjacent: owner[i] then
  // belongs to the unit at first + i * unit.
  std::vector<int64_t> begins;
  std::vector<int32_t> owner;

  // elements: of each touch.
  static OwnerMap Of(const std::vector<ThreadElements>& touches, int64_t elements);

  int64_t Begin(size_t i) const {
    return begins.empty() ? first + static_cast<int64_t>(i) * unit : begins[i];
  }
  // The index of the first unit that does not end before the element.
  size_t Find(int64_t element) const;
};

// A map and its place: element e begins at `base` + e * `scale`. Two maps count the same units,
// elements of one buffer or bytes.
struct PlacedOwners {
  const OwnerMap& map;
  int64_t base = 0;
  int64_t scale = 1;

  int64_t Begin(size_t i) const { return base + map.Begin(i) * scale; }
  int64_t End(size_t i) const { return Begin(i) + map.unit * scale; }
  // The index of the first unit that does not end before the place.
  size_t Find(int64_t place) const {
    int64_t distance = place - base;
    return map.Find(distance / scale - (distance % scale < 0));
  }
};

// Returns whether visit(owner in a, owner in b) holds for some place that both maps contain.
template <typename Visit>
bool AnyCommon(const PlacedOwners& a, const PlacedOwners& b, const Visit& visit) {
  if (a.map.owner.empty() || b.map.owner.empty()) return false;
  size_t i = a.Find(b.Begin(0));
  size_t j = b.Find(a.Begin(0));
  while (i < a.map.owner.size() && j < b.map.owner.size()) {
    int32_t x = a.map.owner[i];
    int32_t y = b.map.owner[j];
    bool meet = a.Begin(i) < b.End(j) && b.Begin(j) < a.End(i);
    int64_t end_a = a.End(i);
    int64_t end_b = b.End(j);
    i += end_a <= end_b;
    j += end_b <= end_a;
    bool touched = x != OwnerMap::kNobody && y != OwnerMap::kNobody;
    if (meet && touched && visit(x, y)) return true;
  }
  return false;
}

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_OWNER_MAP_H_
