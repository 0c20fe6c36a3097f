// Constants in CUDA C++.
#ifndef TILELANG_CODEGEN_LITERALS_H_
#define TILELANG_CODEGEN_LITERALS_H_

#include <string>

#include "ir/expr.h"

namespace tilelang {

std::string IntLiteral(ir::DType dtype, int64_t value);
// The shortest decimal that reads back as the value of `dtype` nearest to `value`.
std::string FloatLiteral(ir::DType dtype, double value);
std::string StringLiteral(const std::string& text);

}  // namespace tilelang

#endif  // TILELANG_CODEGEN_LITERALS_H_
