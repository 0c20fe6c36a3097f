#ifndef TILELANG_CHECK_REMARK_ARGUMENTS_H_
#define TILELANG_CHECK_REMARK_ARGUMENTS_H_

#include "ir/function.h"

namespace tilelang::check {

// Remarks of topic "argument" on arguments of the language that have no effect. The frontend notes
// them in attrs["ignored_arguments"], pairs of a span and a text, which go.
ir::Func RemarkArguments(const ir::Func& func);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_REMARK_ARGUMENTS_H_
