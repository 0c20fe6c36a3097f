#include "analysis/owner_map.h"

namespace tilelang::analysis {

namespace {

// Units that reach over at most so many are stored densely.
constexpr int64_t kMaxDense = 1 << 18;

// The touches of one unit each.
std::vector<ThreadElements> CutIntoElements(const std::vector<ThreadElements>& touches,
                                            int64_t elements) {
  std::vector<ThreadElements> result;
  result.reserve(touches.size() * static_cast<size_t>(elements));
  for (const ThreadElements& touch : touches) {
    for (int64_t i = 0; i < elements; ++i) {
      result.push_back({touch.iteration, touch.element + i, touch.thread});
    }
  }
  return result;
}

}  // namespace

OwnerMap OwnerMap::Of(const std::vector<ThreadElements>& touches, int64_t elements) {
  OwnerMap map;
  if (touches.empty()) return map;
  auto [low, high] = std::minmax_element(
      touches.begin(), touches.end(),
      [](const ThreadElements& a, const ThreadElements& b) { return a.element < b.element; });
  map.first = low->element;
  int64_t last = high->element;
  bool aligned = std::all_of(touches.begin(), touches.end(), [&](const ThreadElements& touch) {
    return (touch.element - map.first) % elements == 0;
  });
  if (!aligned) return Of(CutIntoElements(touches, elements), 1);
  map.unit = elements;
  int64_t units = (last - map.first) / elements + 1;
  if (units > kMaxDense) {
    for (const ThreadElements& touch : touches) map.begins.push_back(touch.element);
    std::sort(map.begins.begin(), map.begins.end());
    map.begins.erase(std::unique(map.begins.begin(), map.begins.end()), map.begins.end());
    units = static_cast<int64_t>(map.begins.size());
  }
  map.owner.assign(static_cast<size_t>(units), kNobody);
  std::vector<int64_t> when(map.owner.size(), -1);
  for (const ThreadElements& touch : touches) {
    size_t at = map.Find(touch.element);
    int32_t& owner = map.owner[at];
    if (owner == kNobody) {
      owner = touch.thread;
    } else if (owner != touch.thread) {
      owner = when[at] == touch.iteration && owner != kMany ? kReplicated : kMany;
    }
    when[at] = touch.iteration;
  }
  return map;
}

size_t OwnerMap::Find(int64_t element) const {
  if (!begins.empty()) {
    auto after = std::upper_bound(begins.begin(), begins.end(), element - unit);
    return static_cast<size_t>(after - begins.begin());
  }
  return static_cast<size_t>(std::max<int64_t>(element - first, 0) / unit);
}

}  // namespace tilelang::analysis
