#ifndef TILELANG_TRANSFORM_HOIST_BRANCHES_H_
#define TILELANG_TRANSFORM_HOIST_BRANCHES_H_

#include "ir/function.h"

namespace tilelang::transform {

// Moves a branch out of the loop around it if the loop does nothing else and the condition is the
// same in all iterations:
//
//     for i in range(16):               if tx < 256:
//         if tx < 256:            ->        for i in range(16):
//             C[tx, i] = c[i]                   C[tx, i] = c[i]
//
// A choice between an element of a tensor and a number, in a loop that only stores one to
// registers, becomes a branch around two such loops. Otherwise the conversion of each element waits
// for its load before the next one begins:
//
//     for i in range(16): x[i] = A[tx, i] if row < rows else 0
//
// Vectors are loaded under a predicate, without a branch, and stay.
//
// ptxas then sees one branch for all iterations of an unrolled loop. It spills registers where many
// branches follow each other. Needs thread IR with barriers: threads that take a branch around a
// loop could not wait for others in it. Applies to all targets.
ir::Func HoistBranches(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_HOIST_BRANCHES_H_
