// Which thread touches each element of a buffer.
#ifndef TILELANG_ANALYSIS_OWNER_MAP_H_
#define TILELANG_ANALYSIS_OWNER_MAP_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tilelang::analysis {

// A thread touches consecutive elements, as many as all touches of one map.
struct Touch {
  int64_t iteration;
  int64_t element;  // the first
  int32_t thread;
};

// Which thread touches each unit of consecutive elements; of tensor memory: which warp touches each
// cell, 16 lanes of a column.
struct OwnerMap {
  static constexpr int32_t kNobody = -1;
  static constexpr int32_t kReplicated = -2;  // several threads in one iteration
  static constexpr int32_t kMany = -3;        // different threads in different iterations
  int64_t first = 0;
  int64_t unit = 1;
  // Where the units begin, in ascending order; empty when they lie so close that owner[i] is of the
  // one at first + i * unit.
  std::vector<int64_t> begins;
  std::vector<int32_t> owner;

  // elements: of each touch.
  static OwnerMap Of(const std::vector<Touch>& touches, int64_t elements);

  int64_t Begin(size_t i) const {
    return begins.empty() ? first + static_cast<int64_t>(i) * unit : begins[i];
  }
  // The index of the first unit that does not end before the element.
  size_t Find(int64_t element) const;
};

// Whether visit(owner in a, owner in b) holds for some element that both touch. The elements of
// each map are moved by its shift.
template <typename Visit>
bool AnyCommon(const OwnerMap& a, int64_t shift_a, const OwnerMap& b, int64_t shift_b,
               const Visit& visit) {
  if (a.owner.empty() || b.owner.empty()) return false;
  size_t i = a.Find(b.Begin(0) + shift_b - shift_a);
  size_t j = b.Find(a.Begin(0) + shift_a - shift_b);
  while (i < a.owner.size() && j < b.owner.size()) {
    int64_t begin_a = a.Begin(i) + shift_a;
    int64_t begin_b = b.Begin(j) + shift_b;
    int64_t end_a = begin_a + a.unit;
    int64_t end_b = begin_b + b.unit;
    int32_t x = a.owner[i];
    int32_t y = b.owner[j];
    i += end_a <= end_b;
    j += end_b <= end_a;
    if (end_a <= begin_b || end_b <= begin_a) continue;
    if (x != OwnerMap::kNobody && y != OwnerMap::kNobody && visit(x, y)) return true;
  }
  return false;
}

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_OWNER_MAP_H_
