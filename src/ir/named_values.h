// Statements without the names that those before them bind.
#ifndef TILELANG_IR_NAMED_VALUES_H_
#define TILELANG_IR_NAMED_VALUES_H_

#include "ir/stmt.h"

namespace tilelang::ir {

// Returns the last statement of a sequence, with the values of the names that all others bind; `s`
// itself where it is no such sequence.
Stmt WithoutNames(const Stmt& s);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_NAMED_VALUES_H_
