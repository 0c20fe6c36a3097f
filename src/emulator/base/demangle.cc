#include "emulator/base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace tilelang::emulator {
namespace {

constexpr size_t kMaxMangled = 4096;
constexpr size_t kHead = 60, kTail = 40;

std::string Demangled(const std::string& name) {
  if (name.compare(0, 2, "_Z") != 0 || name.size() > kMaxMangled) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? std::string(text.get()) : name;
}

}  // namespace

std::string ShortName(const std::string& name) {
  const std::string clear = Demangled(name);
  if (clear.size() <= kHead + kTail) return clear;
  return clear.substr(0, kHead) + "..." + clear.substr(clear.size() - kTail);
}

}  // namespace tilelang::emulator
