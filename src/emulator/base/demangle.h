// Names of kernels and functions as their authors wrote them.
#ifndef TILELANG_EMULATOR_BASE_DEMANGLE_H_
#define TILELANG_EMULATOR_BASE_DEMANGLE_H_

#include <string>

namespace tilelang::emulator {

// A mangled C++ name in clear; others stay. Not more than about a hundred characters: what is left
// out of the middle, mostly template arguments, becomes "...".
std::string ShortName(const std::string& name);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_BASE_DEMANGLE_H_
