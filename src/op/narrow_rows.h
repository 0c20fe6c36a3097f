// Rows at distances that no vector divides, of which a program is told.
#ifndef TILELANG_OP_NARROW_ROWS_H_
#define TILELANG_OP_NARROW_ROWS_H_

#include "op/parallel.h"

namespace tilelang::op {

// A remark for each tensor that a loop of which `width` iterations run as one would access by 16
// bytes, were its rows a multiple of these apart: what is, why, and what to do.
void RemarkNarrowRows(const ParallelInfo& info, int64_t width, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_NARROW_ROWS_H_
