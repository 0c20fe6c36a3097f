#ifndef TILELANG_TRANSFORM_REMARK_ARGUMENTS_H_
#define TILELANG_TRANSFORM_REMARK_ARGUMENTS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Remarks of topic "argument" on arguments of the language that have no effect. The frontend notes
// them in attrs["ignored_arguments"], pairs of a span and a text, which go.
ir::Func RemarkArguments(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_REMARK_ARGUMENTS_H_
