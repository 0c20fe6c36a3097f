#include "tiling/row_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace tilelang::tiling {

namespace {

constexpr std::array<int64_t, 17> kRowsOfCalls = {
    16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384};
// The least that a range has to save, as a share of the time of one call.
constexpr double kCostOfRange = 0.1;

using Clocks = std::array<double, kRowsOfCalls.size()>;
using Key = std::tuple<int64_t, int64_t, bool, int64_t>;

Key KeyOf(const Tcgen05Tiles& tiles) {
  return {tiles.tile.rows, tiles.tile.columns, tiles.pairs, tiles.parts};
}

// Tiles for calls of kRowsOfCalls[first] to kRowsOfCalls[last] rows, and the sum of the shares by
// which the calls take longer than with their own best tiles.
struct Span {
  std::optional<Tcgen05Tiles> tiles;
  double loss = 0;
};

class RowDivider {
 public:
  RowDivider(const GemmProblem& problem, const Target& target, const TileSettings& settings) {
    for (size_t i = 0; i < kRowsOfCalls.size(); ++i) {
      GemmProblem call = problem;
      call.m = kRowsOfCalls[i];
      for (const Tcgen05Tiles& tiles : ProposeTcgen05(call, target)) {
        if (!settings.Allow(tiles.tile.columns, tiles.pairs, tiles.parts)) continue;
        candidates_[i].emplace(KeyOf(tiles), tiles);
      }
    }
  }

  // Leaves out tiles to which the program cannot be rewritten. A program that does not allow pairs,
  // or blocks that share iterations, allows them with no columns.
  void Exclude(const Tcgen05Tiles& tiles) {
    auto fails = [&](const Tcgen05Tiles& other) {
      if (tiles.pairs) return other.pairs;
      return tiles.parts > 1 ? other.parts > 1 : KeyOf(other) == KeyOf(tiles);
    };
    for (auto& candidates : candidates_) {
      for (auto it = candidates.begin(); it != candidates.end();) {
        it = fails(it->second) ? candidates.erase(it) : std::next(it);
      }
    }
  }

  // The division with the least loss; empty if so few ranges have no tiles for all calls.
  std::vector<RowRange> Divide(size_t count) const {
    Clocks least;
    for (size_t i = 0; i < kRowsOfCalls.size(); ++i) {
      if (candidates_[i].empty()) return {};
      least[i] = std::numeric_limits<double>::infinity();
      for (const auto& [key, tiles] : candidates_[i]) least[i] = std::min(least[i], tiles.clocks);
    }
    // best[n][i]: of the calls from number i on, in at most n ranges.
    struct Rest {
      double loss = std::numeric_limits<double>::infinity();
      size_t last = 0;  // call of the first range
      Tcgen05Tiles tiles{};
    };
    constexpr size_t kCount = kRowsOfCalls.size();
    std::vector<std::array<Rest, kCount + 1>> best(count + 1);
    for (auto& rests : best) rests[kCount].loss = 0;
    for (size_t first = kCount; first-- > 0;) {
      for (size_t last = first; last < kCount; ++last) {
        Span span = SpanOf(first, last, least);
        if (!span.tiles) break;
        for (size_t ranges = 1; ranges <= count; ++ranges) {
          double loss = kCostOfRange + span.loss + best[ranges - 1][last + 1].loss;
          if (loss < best[ranges][first].loss) best[ranges][first] = {loss, last, *span.tiles};
        }
      }
    }
    if (std::isinf(best[count][0].loss)) return {};
    std::vector<RowRange> ranges;
    for (size_t first = 0, left = count; first < kCount; --left) {
      const Rest& rest = best[left][first];
      ranges.push_back(
          {rest.last + 1 == kCount ? kAnyExtent : kRowsOfCalls[rest.last], rest.tiles});
      first = rest.last + 1;
    }
    return ranges;
  }

 private:
  Span SpanOf(size_t first, size_t last, const Clocks& least) const {
    Span best;
    for (const auto& [key, tiles] : candidates_[last]) {
      double loss = 0;
      bool everywhere = true;
      for (size_t i = first; i <= last && everywhere; ++i) {
        auto found = candidates_[i].find(key);
        everywhere = found != candidates_[i].end();
        if (everywhere) loss += found->second.clocks / least[i] - 1;
      }
      if (everywhere && (!best.tiles || loss < best.loss)) best = {tiles, loss};
    }
    return best;
  }

  std::array<std::map<Key, Tcgen05Tiles>, kRowsOfCalls.size()> candidates_;
};

}  // namespace

std::vector<RowRange> DivideRows(const GemmProblem& problem, const Target& target,
                                 const TileSettings& settings, size_t count,
                                 const std::function<bool(const RowRange&)>& applies) {
  RowDivider divider(problem, target, settings);
  for (;;) {
    std::vector<RowRange> ranges = divider.Divide(count);
    auto excluded = std::find_if_not(ranges.begin(), ranges.end(), applies);
    if (excluded == ranges.end()) return ranges;
    divider.Exclude(excluded->tiles);
  }
}

}  // namespace tilelang::tiling
