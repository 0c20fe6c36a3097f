#include "emulator/timing/shared_port.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/core/machine.h"
#include "emulator/timing/lane_addresses.h"

namespace tilelang::emulator {
namespace {

constexpr int kBanks = 32;
constexpr int kWordBytes = 4;

// Counts the distinct words that some lanes access in each bank.
class Banks {
 public:
  void Access(uint64_t word) {
    const int bank = static_cast<int>(word % kBanks);
    uint64_t* words = words_[bank];
    int& count = counts_[bank];
    if (std::find(words, words + count, word) != words + count) return;
    words[count++] = word;
    deepest_ = std::max(deepest_, count);
  }
  int deepest() const { return deepest_; }

 private:
  int counts_[kBanks] = {};
  int deepest_ = 0;
  uint64_t words_[kBanks][kBanks];
};

// Returns the wavefronts of lanes at a constant distance without a look at their banks, or 0 if the
// banks matter.
int RegularWavefronts(uint64_t step, int bytes, bool load) {
  const int words = std::max(1, bytes / kWordBytes);
  if (!std::has_single_bit(static_cast<unsigned>(words)) || words > kBanks) return 0;
  return step == 0 && load && words > 1 ? words / 2 : words;
}

}  // namespace

int IdealWavefronts(uint32_t mask, int bytes) {
  return std::max(1, (LanesOf(mask) * bytes + kBanks * kWordBytes - 1) / (kBanks * kWordBytes));
}

int SharedWavefronts(const uint64_t* addresses, uint32_t mask, int bytes, int shift, bool load) {
  if (const auto step = StepOf(addresses, mask, bytes)) {
    if (const int regular = RegularWavefronts(*step, bytes, load)) return regular;
  }
  const int words = std::max(1, bytes / kWordBytes);
  const int group = std::max(1, 32 / words);  // lanes that are served together
  const auto depth = [&](int first, int count) {
    const uint32_t lanes = mask & (count == 32 ? ~0u : ((1u << count) - 1) << first);
    const auto each_word = [&](auto access) {
      for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const uint64_t at = addresses[std::countr_zero(rest)] + static_cast<uint64_t>(shift);
        for (int i = 0; i < words; ++i) {
          if (!access(at / kWordBytes + static_cast<uint64_t>(i))) return false;
        }
      }
      return true;
    };
    // Mostly no bank is accessed twice, unless neighbouring lanes share a word.
    uint32_t seen = 0;
    uint64_t last = ~uint64_t{0};
    const bool alone = each_word([&](uint64_t word) {
      if (std::exchange(last, word) == word) return true;
      const uint32_t bank = 1u << (word % kBanks);
      return (std::exchange(seen, seen | bank) & bank) == 0;
    });
    if (alone) return seen != 0 ? 1 : 0;
    Banks banks;
    each_word([&](uint64_t word) {
      banks.Access(word);
      return true;
    });
    return banks.deepest();
  };
  int wavefronts = 0;
  for (int first = 0; first < 32; first += 2 * group) {
    if (group == 32) return std::max(1, depth(first, group));
    // Two groups that load the same words, or without conflicts, go together.
    const int both = load ? depth(first, 2 * group) : kBanks;
    wavefronts += both <= 1 ? both : depth(first, group) + depth(first + group, group);
  }
  return std::max(1, wavefronts);
}

}  // namespace tilelang::emulator
