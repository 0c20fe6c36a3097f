#ifndef TILELANG_CHECK_REMARK_ARGUMENTS_H_
#define TILELANG_CHECK_REMARK_ARGUMENTS_H_

#include "ir/function.h"

namespace tilelang::check {

// Remarks on what the frontend notes among the attributes of the function, which go:
//   "ignored_arguments"  pairs of a span and a text: arguments of the language without effect, of
//                        topic "argument"
//   "choices"            triples of a span, a topic and a text
ir::Func RemarkArguments(const ir::Func& func);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_REMARK_ARGUMENTS_H_
