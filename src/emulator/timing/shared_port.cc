#include "emulator/timing/shared_port.h"

#include <algorithm>
#include <bit>

namespace tilelang::emulator {
namespace {

constexpr int kBanks = 32;
constexpr int kWordBytes = 4;

// Distinct words of each bank that some lanes access.
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

}  // namespace

int IdealWavefronts(uint32_t mask, int bytes) {
  return std::max(1,
                  (std::popcount(mask) * bytes + kBanks * kWordBytes - 1) / (kBanks * kWordBytes));
}

int SharedWavefronts(const uint64_t* addresses, uint32_t mask, int bytes) {
  const int words = std::max(1, bytes / kWordBytes);
  const int group = std::max(1, 32 / words);  // lanes that are served together
  int wavefronts = 0;
  for (int first = 0; first < 32; first += group) {
    const uint32_t lanes = mask & (group == 32 ? ~0u : ((1u << group) - 1) << first);
    if (lanes == 0) continue;
    Banks banks;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      const uint64_t word = addresses[std::countr_zero(rest)] / kWordBytes;
      for (int i = 0; i < words; ++i) banks.Access(word + static_cast<uint64_t>(i));
    }
    wavefronts += banks.deepest();
  }
  return std::max(1, wavefronts);
}

}  // namespace tilelang::emulator
