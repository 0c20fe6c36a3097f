#ifndef TILELANG_TRANSFORM_STAGE_ROWS_H_
#define TILELANG_TRANSFORM_STAGE_ROWS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Copies narrow rows of a matrix to and from fragments through shared memory, on all targets. If a
// row begins at no multiple of 16 bytes, threads load it element by element, and neighbouring
// threads have few elements each. Several whole rows are contiguous, though, and may begin at a
// multiple of 16 bytes: vectors move them between the matrix and shared memory, and a thread then
// reads as many elements of a row there as it likes. A remark says so.
//
// The pass leaves copies inside of pipelined loops and beside GEMMs as they are.
ir::Func StageRows(const ir::Func& func);

// Returns whether vectors can move rows of so many bytes: each by itself, or several narrow ones
// through shared memory.
bool HasVectors(int64_t row_bytes);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_STAGE_ROWS_H_
