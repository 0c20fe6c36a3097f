// Lanes that part, whatever the program, compute what each would alone. DIVERGENT_PTX="first count"
// runs other seeds than the usual ones; a failure names its seed, and "seed 1" shows its text.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "emulator/base/error.h"
#include "emulator/core/kernel.h"
#include "emulator/divergent_program.h"
#include "emulator/memory/global.h"
#include "emulator/run.h"

namespace tilelang::testing {
namespace {

constexpr uint64_t kUsualCount = 150;
constexpr uint32_t kCtas = 2;
constexpr uint32_t kUntouched = 0xABCD1234;
constexpr unsigned kMaxSeconds = 60;  // for one program

// The words that the threads wrote, or the error.
std::string Run(const DivergentProgram& program, uint64_t seed, std::vector<uint32_t>* out) {
  emulator::GlobalMemory memory;
  const uint64_t address =
      memory.Map(reinterpret_cast<uint8_t*>(out->data()), out->size() * 4, "out");
  memory.AllowRange(address, out->size() * 4, true);
  const auto module = emulator::LoadModule(program.Ptx(), "sm_100a", memory);
  emulator::Launch launch(*module->kernels.at(0), memory);
  launch.options.grid = {kCtas, 1, 1};
  launch.options.block = {program.threads(), 1, 1};
  launch.options.schedule = static_cast<emulator::Schedule>(seed % 3);
  launch.options.seed = seed;
  launch.options.sanitize = seed % 4 != 0;
  launch.options.threads = 1;
  if (seed % 2 == 0) launch.options.lints.insert("ld-before-wait");
  const auto* bytes = reinterpret_cast<const uint8_t*>(&address);
  launch.params.assign(bytes, bytes + sizeof address);
  emulator::Run(launch);
  return launch.error ? launch.error->Report() : "";
}

// Of the threads, how many wrote nothing; -1: something is wrong.
int Untouched(uint64_t seed, bool print) {
  const DivergentProgram program(seed);
  if (print) std::printf("%s\n", program.Ptx().c_str());
  std::vector<uint32_t> out(kCtas * program.threads(), kUntouched);
  std::string wrong;
  try {
    wrong = Run(program, seed, &out);
  } catch (const emulator::EmulatorError& error) {
    wrong = error.Report();
  }
  int untouched = 0;
  for (uint32_t i = 0; i < out.size() && wrong.empty(); ++i) {
    const uint32_t cta = i / program.threads(), thread = i % program.threads();
    const uint32_t right = program.ResultOf(cta, program.threads(), thread, kUntouched);
    untouched += right == kUntouched;
    if (out[i] == right) continue;
    wrong = "thread " + std::to_string(thread) + " of CTA " + std::to_string(cta) + " writes " +
            std::to_string(out[i]) + ", not " + std::to_string(right);
  }
  if (wrong.empty()) return untouched;
  std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
  return -1;
}

TEST(LanesThatPartComputeWhatEachWouldAlone) {
  unsigned long long first = 0, count = kUsualCount;
  const char* chosen = std::getenv("DIVERGENT_PTX");
  if (chosen) CHECK_EQ(std::sscanf(chosen, "%llu %llu", &first, &count), 2);
  int quiet = 0;
  for (unsigned long long seed = first; seed < first + count; ++seed) {
    alarm(kMaxSeconds);
    const int untouched = Untouched(seed, count == 1);
    CHECK(untouched >= 0);
    quiet += untouched > 0;
  }
  alarm(0);
  std::printf("%llu programs; in %d some threads write nothing\n", count, quiet);
  CHECK(count < kUsualCount || quiet > static_cast<int>(count / 20));
}

}  // namespace
}  // namespace tilelang::testing
