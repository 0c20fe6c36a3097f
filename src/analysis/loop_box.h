// Boxes of buffers that parallel loops touch element by element.
#ifndef TILELANG_ANALYSIS_LOOP_BOX_H_
#define TILELANG_ANALYSIS_LOOP_BOX_H_

#include <optional>
#include <vector>

#include "arith/analyzer.h"
#include "ir/tile_op.h"

namespace tilelang::analysis {

// The elements that a loop touches by one access, if they are a box.
struct LoopBox {
  ir::Region region;
  std::vector<size_t> vars;  // variables of the loop, in the order of the dimensions they move
};

// Returns the box of an access in which each variable of the loop moves one index, by one. The
// analyzer knows the ranges of the variables.
std::optional<LoopBox> BoxOf(const ir::Buffer& buffer, const ir::Array<ir::Expr>& indices,
                             const ir::ParallelForNode* loop, arith::Analyzer* analyzer);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_LOOP_BOX_H_
