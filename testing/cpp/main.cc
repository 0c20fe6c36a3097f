#include <cstdio>
#include <cstring>
#include <exception>

#include "check.h"

namespace tilelang::testing {
namespace {
int checks = 0;
int failures = 0;

// Returns whether every check of the test passed.
bool Run(const Test& test) {
  const int checks_before = checks;
  const int failures_before = failures;
  try {
    test.body();
  } catch (const std::exception& error) {
    Record(false, test.name, 0, std::string("threw: ") + error.what());
  }
  if (checks == checks_before) Record(false, test.name, 0, "checked nothing");
  if (failures == failures_before) return true;
  std::fprintf(stderr, "FAILED %s\n", test.name);
  return false;
}
}  // namespace

void Record(bool passed, const char* file, int line, const std::string& what) {
  ++checks;
  if (passed) return;
  ++failures;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

}  // namespace tilelang::testing

int main(int argc, char** argv) {
  int run = 0;
  int failed = 0;
  for (const auto& test : tilelang::testing::Tests()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    ++run;
    failed += !tilelang::testing::Run(test);
  }
  std::printf("%d tests, %d failed\n", run, failed);
  return failed > 0 || run == 0;
}
