#include "emulator/algebra/discrete_log.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "emulator/algebra/residue.h"

namespace tilelang::emulator {
namespace {

constexpr int kDigitBits = 10, kDigits = 3;

struct PowerTable {
  uint32_t of[kDigits][1 << kDigitBits];
  explicit PowerTable(int index) {
    const auto two = static_cast<uint32_t>((uint64_t{1} << 33) % kModuli[index]);
    for (uint64_t digit = 0; digit < kDigits; ++digit) {
      for (uint64_t i = 0; i < (1 << kDigitBits); ++i) {
        of[digit][i] = MontgomeryPower(two, i << (digit * kDigitBits), index);
      }
    }
  }
};

// The logarithms in the subgroup of a factor's order, by its elements, in order.
class SubgroupLogs {
 public:
  SubgroupLogs(int index, uint32_t order) : index_(index), order_(order) {
    const uint32_t generator = PowerOfTwo(cofactor(), index);
    auto power = static_cast<uint32_t>((uint64_t{1} << 32) % kModuli[index]);
    for (uint32_t i = 0; i < order; ++i) {
      logs_.emplace_back(power, i);
      power = Reduced(uint64_t{power} * generator, index);
    }
    std::sort(logs_.begin(), logs_.end());
  }
  // The exponent of `square` modulo the order.
  uint32_t Of(uint32_t square) const {
    const std::pair<uint32_t, uint32_t> wanted{MontgomeryPower(square, cofactor(), index_), 0};
    const uint32_t log = std::lower_bound(logs_.begin(), logs_.end(), wanted)->second;
    return log;
  }
  uint32_t order() const { return order_; }
  uint32_t cofactor() const { return kModuli[index_ + kResidues] / order_; }

 private:
  int index_;
  uint32_t order_;
  std::vector<std::pair<uint32_t, uint32_t>> logs_;
};

// generator = 2^cofactor, square^cofactor = 2^(cofactor * exponent): the logarithm to the generator
// is the exponent itself, modulo the order.
const SubgroupLogs& LogsOf(int index, int factor) {
  static const std::array<SubgroupLogs, 4> logs = {
      SubgroupLogs(0, kFactors[0][0]), SubgroupLogs(0, kFactors[0][1]),
      SubgroupLogs(1, kFactors[1][0]), SubgroupLogs(1, kFactors[1][1])};
  return logs[static_cast<size_t>(2 * index + factor)];
}

}  // namespace

uint32_t PowerOfTwo(uint32_t exponent, int index) {
  static const PowerTable tables[kResidues] = {PowerTable(0), PowerTable(1)};
  const PowerTable& table = tables[index];
  constexpr uint32_t mask = (1 << kDigitBits) - 1;
  uint32_t result = table.of[0][exponent & mask];
  result = Reduced(uint64_t{result} * table.of[1][exponent >> kDigitBits & mask], index);
  return Reduced(uint64_t{result} * table.of[2][exponent >> (2 * kDigitBits)], index);
}

uint32_t DiscreteLog(uint32_t square, int index) {
  const SubgroupLogs& first = LogsOf(index, 0);
  const SubgroupLogs& second = LogsOf(index, 1);
  const uint64_t a = first.Of(square), b = second.Of(square);
  const uint64_t p = first.order(), q = second.order();
  const uint64_t inverse = PowerOf(p, q - 2, q);  // of p modulo q
  const uint64_t step = (b + q - a % q) % q * inverse % q;
  return static_cast<uint32_t>(a + p * step);
}

}  // namespace tilelang::emulator
