// Names of kernels and functions as their authors wrote them.
#pragma once

#include <string>

namespace tilelang::emulator {

// A mangled C++ name in clear; others stay. Not more than about a hundred characters: what is left
// out of the middle, mostly template arguments, becomes "...".
std::string ShortName(const std::string& name);

}  // namespace tilelang::emulator
