#include "layout/digits.h"

#include <algorithm>

namespace tilelang::layout {

int64_t DigitsSize(const Digits& digits) {
  int64_t size = 1;
  for (const Digit& d : digits) size *= d.extent;
  return size;
}

int64_t DigitsAt(const Digits& digits, int64_t index) {
  int64_t value = 0;
  for (size_t k = 0; k < digits.size(); ++k) {
    bool last = k + 1 == digits.size();
    value += (last ? index : index % digits[k].extent) * digits[k].stride;
    index /= digits[k].extent;
  }
  return value;
}

int64_t DigitsMax(const Digits& digits, int64_t extent) {
  int64_t full = 0;  // largest value of the digits below the current one, all of them free
  int64_t cut = 0;   // the same with the index limited to (extent - 1) % radix
  int64_t radix = 1;
  for (size_t k = 0; k < digits.size(); ++k) {
    int64_t top = (extent - 1) / radix;
    if (k + 1 < digits.size()) top %= digits[k].extent;
    int64_t below = top > 0 ? (top - 1) * digits[k].stride + full : -1;
    cut = std::max(below, top * digits[k].stride + cut);
    full += (digits[k].extent - 1) * digits[k].stride;
    radix *= digits[k].extent;
  }
  return cut;
}

Digits Canonical(const Digits& digits, int64_t extent) {
  Digits result;
  int64_t radix = 1;
  for (const Digit& d : digits) {
    int64_t reached = (extent + radix - 1) / radix;
    int64_t e = std::min(d.extent, reached);
    if (&d == &digits.back()) e = reached;
    radix *= d.extent;
    if (e <= 1) continue;
    if (!result.empty() && d.stride == result.back().stride * result.back().extent) {
      result.back().extent *= e;
    } else {
      result.push_back({e, d.stride});
    }
  }
  if (!result.empty()) {
    int64_t lower = DigitsSize(result) / result.back().extent;
    result.back().extent = (extent + lower - 1) / lower;
  }
  return result;
}

std::optional<Digits> RecoverDigits(std::span<const int64_t> values) {
  Digits digits;
  std::vector<int64_t> rest(values.begin(), values.end());
  while (rest.size() > 1) {
    int64_t n = static_cast<int64_t>(rest.size());
    int64_t stride = rest[1];
    if (stride < 0) return std::nullopt;
    // The radix is exactly the length of the linear prefix: a longer digit would not be linear,
    // a shorter one would continue.
    int64_t run = 1;
    while (run < n && rest[run] == run * stride) ++run;
    digits.push_back({run, stride});
    std::vector<int64_t> next;
    for (int64_t i = 0; i < n; ++i) {
      if (i % run == 0) next.push_back(rest[i]);
      if (rest[i] != next.back() + (i % run) * stride) return std::nullopt;
    }
    rest = std::move(next);
  }
  return digits;
}

std::optional<std::vector<DigitPair>> Refine(const Digits& a, const Digits& b) {
  std::vector<DigitPair> pairs;
  size_t i = 0, j = 0;
  Digit x{1, 0}, y{1, 0};
  while (true) {
    while (x.extent == 1 && i < a.size()) x = a[i++];
    while (y.extent == 1 && j < b.size()) y = b[j++];
    if (x.extent == 1 && y.extent == 1) return pairs;
    // A form that ends early is constant above its range.
    if (x.extent == 1) x = {y.extent, 0};
    if (y.extent == 1) y = {x.extent, 0};
    int64_t e = std::min(x.extent, y.extent);
    if (std::max(x.extent, y.extent) % e != 0) {
      // The last digits of both may differ in padding only.
      if (i < a.size() || j < b.size()) return std::nullopt;
      e = std::max(x.extent, y.extent);
      pairs.push_back({e, x.stride, y.stride});
      return pairs;
    }
    pairs.push_back({e, x.stride, y.stride});
    x = {x.extent / e, x.stride * e};
    y = {y.extent / e, y.stride * e};
  }
}

std::optional<Digits> AddDigits(const Digits& a, const Digits& b) {
  auto pairs = Refine(a, b);
  if (!pairs) return std::nullopt;
  Digits sum;
  for (const DigitPair& p : *pairs) sum.push_back({p.extent, p.first + p.second});
  return sum;
}

namespace {

/*! Splits the digit (extent, stride) over outer's digits; adds the largest use of each to `used`.
 */
std::optional<Digits> ComposeOne(const Digits& outer, Digit inner, std::vector<int64_t>* used) {
  Digits result;
  if (inner.stride == 0 || inner.extent == 1) {
    result.push_back({inner.extent, 0});
    return result;
  }
  for (size_t k = 0; k < outer.size() && inner.extent > 1; ++k) {
    int64_t e = outer[k].extent;
    if (inner.stride % e == 0) {
      inner.stride /= e;
      continue;
    }
    if (e % inner.stride != 0) {
      // Still fine when the whole digit stays below outer's radix.
      if (inner.stride * (inner.extent - 1) >= e) return std::nullopt;
    }
    int64_t fits = (e + inner.stride - 1) / inner.stride;
    int64_t take = std::min(inner.extent, fits);
    if (inner.extent % take != 0) return std::nullopt;
    result.push_back({take, inner.stride * outer[k].stride});
    (*used)[k] += (take - 1) * inner.stride;
    inner.extent /= take;
    inner.stride = 1;
  }
  if (inner.extent > 1) return std::nullopt;  // beyond outer's range
  return result;
}

}  // namespace

std::optional<std::pair<std::vector<Digits>, int64_t>> ComposeDigits(
    const Digits& outer, const std::vector<Digits>& inner, int64_t offset) {
  std::vector<int64_t> used(outer.size(), 0);
  int64_t rest = offset, base = 0;
  for (size_t k = 0; k < outer.size(); ++k) {
    used[k] = rest % outer[k].extent;
    base += used[k] * outer[k].stride;
    rest /= outer[k].extent;
  }
  if (rest != 0) return std::nullopt;
  std::vector<Digits> forms;
  for (const Digits& digits : inner) {
    Digits form;
    for (const Digit& d : digits) {
      auto part = ComposeOne(outer, d, &used);
      if (!part) return std::nullopt;
      form.insert(form.end(), part->begin(), part->end());
    }
    forms.push_back(std::move(form));
  }
  for (size_t k = 0; k < outer.size(); ++k) {
    if (used[k] >= outer[k].extent) return std::nullopt;
  }
  return std::make_pair(std::move(forms), base);
}

}  // namespace tilelang::layout
