#ifndef TILELANG_REDUCTIONS_REDUCE_TENSORS_H_
#define TILELANG_REDUCTIONS_REDUCE_TENSORS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::reductions {

// Reduces parts of tensors themselves where the program copies such a part to a fragment that needs
// more registers than a thread has, and only reduces the fragment. RollReductions then goes through
// the tensor in turns. The copies and the fragment are removed; a remark says so.
ir::Func ReduceTensors(const ir::Func& func, const Target& target);

}  // namespace tilelang::reductions

#endif  // TILELANG_REDUCTIONS_REDUCE_TENSORS_H_
