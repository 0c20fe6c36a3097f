// Lines of global memory and wavefronts of shared memory that the lanes of a warp access, against
// the bytes of each lane one by one.
#include "emulator/timing/lane_addresses.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "emulator/core/machine.h"
#include "emulator/timing/shared_port.h"

namespace tilelang::emulator {
namespace {

using Addresses = std::array<uint64_t, kLanes>;

// Sectors by line.
std::map<uint64_t, uint32_t> SectorsOf(const Addresses& addresses, uint32_t mask, int bytes) {
  std::map<uint64_t, uint32_t> sectors;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    for (int i = 0; i < bytes; ++i) {
      const uint64_t at = addresses[lane] + static_cast<uint64_t>(i);
      sectors[at / 128] |= 1u << (at / 32 % 4);
    }
  }
  return sectors;
}

// Distinct words of the bank that has most.
int DepthOf(const Addresses& addresses, int bytes) {
  std::map<uint64_t, std::set<uint64_t>> banks;
  for (const uint64_t address : addresses) {
    for (int i = 0; i < bytes; i += 4) {
      const uint64_t word = (address + static_cast<uint64_t>(i)) / 4;
      banks[word % 32].insert(word);
    }
  }
  size_t deepest = 0;
  for (const auto& [bank, words] : banks) deepest = std::max(deepest, words.size());
  return static_cast<int>(deepest);
}

// A row, the same address in each lane, a wider step, or anything.
Addresses AnyOf(std::mt19937& random, int bytes) {
  Addresses addresses;
  const uint64_t base = (random() % 4096) * static_cast<uint64_t>(bytes);
  const uint64_t width = static_cast<uint64_t>(bytes);
  const std::array<uint64_t, 4> steps = {0, width, 3 * width, ~uint64_t{0}};
  const uint64_t step = steps[random() % steps.size()];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    addresses[lane] = step == ~uint64_t{0} ? random() % 8192 * width : base + lane * step;
  }
  // Mostly a row but for one lane.
  if (random() % 4 == 0) addresses[random() % kLanes] += width;
  return addresses;
}

TEST(LinesAreThoseOfEachByte) {
  std::mt19937 random(0);
  for (int round = 0; round < 4000; ++round) {
    const int bytes = 1 << (random() % 5);
    const Addresses addresses = AnyOf(random, bytes);
    const uint32_t mask = round % 3 == 0 ? random() | 1u << (random() % 32) : kAllLanes;
    std::vector<LineAccess> lines;
    CollectLines(addresses.data(), mask, bytes, &lines);
    std::map<uint64_t, uint32_t> sectors;
    for (const LineAccess& line : lines) {
      CHECK(sectors.emplace(line.line, line.sectors).second);
      CHECK_EQ(line.count(), static_cast<uint32_t>(std::popcount(line.sectors)));
    }
    CHECK(sectors == SectorsOf(addresses, mask, bytes));
  }
}

TEST(WordsTakeAWavefrontForEachOfABank) {
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    const int bytes = 1 << (random() % 3);
    const Addresses addresses = AnyOf(random, bytes);
    const int wavefronts = SharedWavefronts(addresses.data(), kAllLanes, bytes);
    CHECK_EQ(wavefronts, DepthOf(addresses, bytes));
  }
}

TEST(OnlyWholeWarpsHaveAStep) {
  Addresses addresses;
  for (size_t lane = 0; lane < kLanes; ++lane) addresses[lane] = 256 + 8 * lane;
  CHECK(StepOf(addresses.data(), kAllLanes, 8) == uint64_t{8});
  CHECK(!StepOf(addresses.data(), kAllLanes, 4));
  CHECK(!StepOf(addresses.data(), kAllLanes >> 1, 8));
  addresses[7] += 8;
  CHECK(!StepOf(addresses.data(), kAllLanes, 8));
}

}  // namespace
}  // namespace tilelang::emulator
