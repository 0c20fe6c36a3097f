// Prints the IR as readable, TileLang-like text with unique names.
#ifndef TILELANG_IR_PRINTER_H_
#define TILELANG_IR_PRINTER_H_

#include <string>

#include "ir/function.h"

namespace tilelang::ir {

std::string Print(const Func& func);
std::string Print(const Stmt& stmt);
std::string Print(const Expr& expr);
std::string Print(const Region& region);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_PRINTER_H_
