// Wavefronts of shared memory against the rule itself: the words of a bank are read one by one.
#include "emulator/timing/shared_port.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "check.h"

namespace tilelang::emulator {
namespace {

using Addresses = std::array<uint64_t, 32>;

int Depth(const Addresses& addresses, uint32_t mask, int bytes, int first, int lanes) {
  std::array<std::set<uint64_t>, 32> banks;
  for (int lane = first; lane < first + lanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (int at = 0; at < std::max(bytes, 4); at += 4) {
      const uint64_t word = (addresses[static_cast<size_t>(lane)] + static_cast<uint64_t>(at)) / 4;
      banks[word % 32].insert(word);
    }
  }
  size_t deepest = 0;
  for (const auto& words : banks) deepest = std::max(deepest, words.size());
  return static_cast<int>(deepest);
}

int Expected(const Addresses& addresses, uint32_t mask, int bytes, bool load) {
  const int lanes = std::min(32, 128 / bytes);
  if (lanes == 32) return std::max(1, Depth(addresses, mask, bytes, 0, 32));
  int wavefronts = 0;
  for (int first = 0; first < 32; first += 2 * lanes) {
    const int both = Depth(addresses, mask, bytes, first, 2 * lanes);
    wavefronts += load && both <= 1 ? both
                                    : Depth(addresses, mask, bytes, first, lanes) +
                                          Depth(addresses, mask, bytes, first + lanes, lanes);
  }
  return std::max(1, wavefronts);
}

}  // namespace

TEST(WavefrontsOfRowsStridesAndOneOddLane) {
  std::mt19937 random(1);
  for (const int bytes : {1, 2, 4, 8, 16}) {
    for (const int step : {0, 1, 2, 4, 8, 16, 32, 128}) {
      for (int change = 0; change < 4; ++change) {
        Addresses addresses;
        for (size_t lane = 0; lane < 32; ++lane) {
          addresses[lane] =
              1024 + 4 * static_cast<uint64_t>(change) + lane * static_cast<uint64_t>(step);
        }
        if (change > 1) addresses[random() % 32] += 16u << random() % 4;
        for (const uint32_t mask : {~0u, 0xFFFFu, static_cast<uint32_t>(random()) | 1u}) {
          for (const bool load : {false, true}) {
            CHECK_EQ(SharedWavefronts(addresses.data(), mask, bytes, 0, load),
                     Expected(addresses, mask, bytes, load));
          }
        }
      }
    }
  }
}

}  // namespace tilelang::emulator
