#include "emulator/core/sm_count.h"

#include <map>

namespace tilelang::emulator {

int SmCountOf(const std::string& arch) {
  static const std::map<std::string, int> counts = {
      {"sm_80", 108},    // A100: NVIDIA A100 whitepaper
      {"sm_90a", 132},   // H100 SXM, H200: NVIDIA H100 whitepaper
      {"sm_100a", 148},  // B200: SemiAnalysis
      {"sm_103a", 148},  // B300: the same count
      {"sm_120a", 170},  // GeForce RTX 5090: NVIDIA RTX Blackwell whitepaper
      {"sm_121a", 48},   // GB10 of DGX Spark: 6144 cores of 128 an SM
  };
  const auto found = counts.find(arch);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace tilelang::emulator
