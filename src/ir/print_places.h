// Prints a function together with the Python line of each line of text.
#ifndef TILELANG_IR_PRINT_PLACES_H_
#define TILELANG_IR_PRINT_PLACES_H_

#include <string>
#include <vector>

#include "ir/function.h"

namespace tilelang::ir {

struct PlacedText {
  std::string text;
  // One for each line of text: "/path/kernel.py:12", or "" if the line belongs to no Python line.
  std::vector<std::string> places;
};
PlacedText PrintWithPlaces(const Func& func);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_PRINT_PLACES_H_
