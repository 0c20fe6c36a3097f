// No text, however wrong, may crash or hang the emulator: mutants of a corpus are loaded and their
// kernels launched for a few instructions. PTX_FUZZ="first count" runs other seeds than the usual
// ones; a failure names its seed, and PTX_FUZZ="seed 1" shows its text.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "emulator/async/tensor_map.h"
#include "emulator/base/error.h"
#include "emulator/core/kernel.h"
#include "emulator/memory/global.h"
#include "emulator/ptx_mutator.h"
#include "emulator/run.h"

namespace tilelang::testing {
namespace {

using emulator::EmulatorError;
using emulator::GlobalMemory;
using emulator::Kernel;

constexpr uint64_t kUsualCount = 500;
constexpr const char* kDevice = "sm_100a";
constexpr unsigned kMaxSeconds = 20;  // for one text
constexpr uint64_t kBufferBytes = 1 << 16;
constexpr uint64_t kMaxInstructions = 3000;

uint64_t current_seed = 0;

// The sanitizers' own reports say nothing of the seed.
void NameSeed(int signal) {
  char text[96];
  const int size = std::snprintf(text, sizeof text, "seed %llu: %s\n",
                                 static_cast<unsigned long long>(current_seed),
                                 signal == SIGALRM ? "hangs" : "crashes");
  if (write(STDERR_FILENO, text, static_cast<size_t>(size)) > 0) _exit(1);
}

std::vector<std::string> Corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PTX_CORPUS)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream file(path);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return texts;
}

// A map of 64 x 64 floats.
void EncodeMap(uint64_t address, uint8_t* bytes) {
  emulator::TensorMap map;
  map.type = emulator::TensorType::kF16;
  map.rank = 2;
  map.address = address;
  map.dims = {64, 64, 1, 1, 1};
  map.strides = {0, 128, 0, 0, 0};
  map.box = {64, 16, 1, 1, 1};
  map.Encode(bytes);
}

// Pointers for parameters of eight bytes, a tensor map for those of 128, small numbers for others.
std::vector<uint8_t> Parameters(const Kernel& kernel, uint64_t buffer) {
  std::vector<uint8_t> bytes(kernel.param_bytes, 3);
  for (const emulator::ParamInfo& param : kernel.params) {
    if (param.size == 128) EncodeMap(buffer, bytes.data() + param.offset);
    if (param.size == 8) std::copy_n(reinterpret_cast<uint8_t*>(&buffer), 8, &bytes[param.offset]);
  }
  return bytes;
}

bool IsSmall(const Kernel& kernel) {
  const auto extent = [](const std::vector<int>& extents) {
    int64_t count = 1;
    for (int value : extents) count = std::min<int64_t>(count * value, 1 << 30);
    return count;
  };
  return !kernel.unsupported && kernel.file_bytes < 1 << 18 && kernel.local_bytes < 1 << 16 &&
         kernel.static_shared < 1 << 18 && extent(kernel.reqntid) <= 256;
}

emulator::Dim3 BlockOf(const Kernel& kernel) {
  emulator::Dim3 block{128, 1, 1};
  uint32_t* extents[] = {&block.x, &block.y, &block.z};
  for (size_t i = 0; i < kernel.reqntid.size(); ++i) {
    *extents[i] = static_cast<uint32_t>(std::max(1, kernel.reqntid[i]));
  }
  return block;
}

// Why the launch ended: "" or the kind of the error.
std::string Launch(const Kernel& kernel, GlobalMemory& memory, uint64_t buffer, uint64_t seed) {
  emulator::Launch launch(kernel, memory);
  launch.options.grid = {2, 1, 1};
  launch.options.block = BlockOf(kernel);
  launch.options.dynamic_shared = 1 << 15;
  launch.options.schedule = static_cast<emulator::Schedule>(seed % 3);
  launch.options.seed = seed;
  launch.options.instruction_limit = kMaxInstructions;
  launch.options.sanitize = seed % 2 == 0;
  launch.options.threads = 1;
  if (seed % 4 < 2) launch.options.lints.insert("ld-before-wait");
  launch.params = Parameters(kernel, buffer);
  emulator::Run(launch);
  return launch.error ? launch.error->kind : "";
}

struct Outcomes {
  uint64_t loaded = 0, launched = 0, finished = 0;
};

void RunText(const std::string& text, uint64_t seed, Outcomes* outcomes) {
  GlobalMemory memory;
  const uint64_t buffer = memory.Allocate(kBufferBytes, "buffer");
  std::shared_ptr<emulator::Module> module;
  try {
    module = emulator::LoadModule(text, kDevice, memory);
  } catch (const EmulatorError& error) {
    CHECK(!error.kind.empty() && !error.Report().empty());
    return;
  }
  ++outcomes->loaded;
  for (const auto& kernel : module->kernels) {
    if (!IsSmall(*kernel)) continue;
    const std::string kind = Launch(*kernel, memory, buffer, seed);
    ++outcomes->launched;
    outcomes->finished += kind.empty();
    CHECK(kind != "internal");
  }
}

TEST(MutantsNeitherCrashNorHang) {
  unsigned long long first = 0, count = kUsualCount;
  const char* chosen = std::getenv("PTX_FUZZ");
  if (chosen) CHECK_EQ(std::sscanf(chosen, "%llu %llu", &first, &count), 2);
  const std::vector<std::string> corpus = Corpus();
  CHECK(corpus.size() >= 5);
  Outcomes clean, outcomes;
  for (const std::string& text : corpus) RunText(text, 0, &clean);
  CHECK_EQ(clean.loaded, corpus.size());
  CHECK(clean.finished > 0);

  const PtxMutator mutator(corpus);
  for (const int signal : {SIGALRM, SIGABRT}) ::signal(signal, NameSeed);
  for (current_seed = first; current_seed < first + count; ++current_seed) {
    const std::string text = mutator.Mutant(current_seed);
    if (count == 1) std::printf("%s\n", text.c_str());
    alarm(kMaxSeconds);
    RunText(text, current_seed, &outcomes);
    if (current_seed % 10000 == 9999) {
      std::fprintf(stderr, "%llu\n", static_cast<unsigned long long>(current_seed));
    }
  }
  alarm(0);
  std::printf("%llu mutants: %llu loaded, %llu launches, %llu to their end\n", count,
              static_cast<unsigned long long>(outcomes.loaded),
              static_cast<unsigned long long>(outcomes.launched),
              static_cast<unsigned long long>(outcomes.finished));
  // If nearly all were refused, the parser alone would be tested.
  CHECK(count < kUsualCount || outcomes.launched > count / 20);
}

}  // namespace
}  // namespace tilelang::testing
