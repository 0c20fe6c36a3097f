// Mixed-radix forms against their definition, evaluated digit by digit.
#include "layout/digits.h"

#include <algorithm>
#include <random>

#include "check.h"

namespace tilelang::layout {
namespace {

int64_t Uniform(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Digits RandomDigits(std::mt19937& random) {
  Digits digits(Uniform(random, 1, 4));
  for (Digit& digit : digits) digit = {Uniform(random, 1, 6), Uniform(random, 0, 40)};
  return digits;
}

// The definition: peel digits off the fastest side; the last one takes what remains.
int64_t Evaluate(const Digits& digits, int64_t index) {
  int64_t value = 0;
  for (size_t k = 0; k < digits.size(); ++k) {
    const bool last = k + 1 == digits.size();
    value += (last ? index : index % digits[k].extent) * digits[k].stride;
    index /= digits[k].extent;
  }
  return value;
}

std::vector<int64_t> Values(const Digits& digits, int64_t extent) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < extent; ++i) values.push_back(Evaluate(digits, i));
  return values;
}

TEST(ValuesAreThoseOfTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const Digits digits = RandomDigits(random);
    const int64_t extent = Uniform(random, 1, DigitsSize(digits));
    const auto values = Values(digits, extent);
    for (int64_t i = 0; i < extent; ++i) CHECK_EQ(DigitsAt(digits, i), values[i]);
    CHECK_EQ(DigitsMax(digits, extent), *std::max_element(values.begin(), values.end()));
  }
}

TEST(CanonicalFormsAreEqualWhenTheFunctionsAre) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const Digits digits = RandomDigits(random);
    const int64_t extent = Uniform(random, 1, DigitsSize(digits));
    const Digits canonical = Canonical(digits, extent);
    const auto values = Values(digits, extent);
    CHECK(Values(canonical, extent) == values);
    CHECK(canonical.size() <= digits.size());
    const auto recovered = RecoverDigits(values);
    CHECK(recovered.has_value() && *recovered == canonical);
  }
}

TEST(WhatIsNoFormIsNotRecovered) {
  CHECK(!RecoverDigits(std::vector<int64_t>{0, 1, 3, 2, 7}).has_value());
  CHECK(!RecoverDigits(std::vector<int64_t>{0, 1, 2, 4, 5, 7}).has_value());
}

TEST(SumsAddValuesWhereRadicesNest) {
  std::mt19937 random(3);
  int added = 0;
  for (int round = 0; round < 500; ++round) {
    const Digits a = RandomDigits(random);
    const Digits b = RandomDigits(random);
    const auto sum = AddDigits(a, b);
    if (!sum) continue;
    ++added;
    const int64_t extent = std::min(DigitsSize(a), DigitsSize(b));
    for (int64_t i = 0; i < extent; ++i)
      CHECK_EQ(Evaluate(*sum, i), Evaluate(a, i) + Evaluate(b, i));
  }
  CHECK(added > 50);
}

TEST(CompositionIsRefusedOrRight) {
  std::mt19937 random(4);
  int composed = 0;
  for (int round = 0; round < 4000; ++round) {
    const Digits outer = RandomDigits(random);
    const std::vector<Digits> inner = {{{Uniform(random, 1, 6), Uniform(random, 0, 8)}},
                                       {{Uniform(random, 1, 6), Uniform(random, 0, 8)}}};
    const int64_t offset = Uniform(random, 0, 4);
    const auto result = ComposeDigits(outer, inner, offset);
    if (!result) continue;
    ++composed;
    for (int64_t i = 0; i < inner[0][0].extent; ++i) {
      for (int64_t j = 0; j < inner[1][0].extent; ++j) {
        const int64_t at = offset + Evaluate(inner[0], i) + Evaluate(inner[1], j);
        const int64_t got =
            result->second + Evaluate(result->first[0], i) + Evaluate(result->first[1], j);
        CHECK_EQ(got, Evaluate(outer, at));
      }
    }
  }
  CHECK(composed > 100);
}

}  // namespace
}  // namespace tilelang::layout
