// Random mutations of PTX texts: of bytes, tokens and structure.
#ifndef TILELANG_TESTING_CPP_EMULATOR_PTX_MUTATOR_H_
#define TILELANG_TESTING_CPP_EMULATOR_PTX_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tilelang::testing {

class PtxMutator {
 public:
  explicit PtxMutator(std::vector<std::string> corpus);
  // The same text for the same seed.
  std::string Mutant(uint64_t seed) const;

 private:
  using Random = std::mt19937_64;
  void MutateBytes(Random& random, std::string* text) const;
  void MutateToken(Random& random, std::string* text) const;
  void MutateStructure(Random& random, std::string* text) const;
  const std::string& RandomLine(Random& random) const;

  std::vector<std::string> corpus_;
  std::vector<std::string> tokens_;  // of the whole corpus, each once, and numbers at the limits
  std::vector<std::string> lines_;
};

}  // namespace tilelang::testing

#endif  // TILELANG_TESTING_CPP_EMULATOR_PTX_MUTATOR_H_
