#include "target/rates.h"

#include <algorithm>
#include <iterator>

namespace tilelang {

namespace {

struct Row {
  int major;
  Rates rates;
};

// Published figures. The B200's come from SemiAnalysis' micro-benchmarks, and L2 of the RTX 5090 is
// an assumption. docs/timing_figures.md lists the figures that were measured on the H200. The
// B200's power is fitted to the clocks that FlashAttention-4 and a GEMM of 16384 cubed reach.
constexpr Row kRows[] = {
    {8, {2048, 128, 40, 64, 1100, 0.95, 1.41e9}},
    {9, {4096, 128, 54, 64, 2500, 0.95, 1.75e9}},
    {10, {8192, 128, 95, 122, 3840, 0.95, 1.85e9, 0.62, 0.635, 0.008}},
    {12, {512, 128, 16, 64, 740, 0.95, 2.41e9}},
};

}  // namespace

Rates RatesOf(const Target& target) {
  auto known = [&](const Row& row) { return row.major <= target->major; };
  return std::find_if(std::rbegin(kRows), std::rend(kRows), known)->rates;
}

}  // namespace tilelang
