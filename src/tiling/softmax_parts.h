// A running softmax whose iterations blocks of a cluster share.
#ifndef TILELANG_TILING_SOFTMAX_PARTS_H_
#define TILELANG_TILING_SOFTMAX_PARTS_H_

#include <string>

#include "analysis/running_softmax.h"
#include "ir/function.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// The launch with clusters of blocks, or a null statement and the reason.
struct DividedSoftmax {
  ir::Stmt launch;
  std::string obstacle;
  ir::Span span;  // of the statement that the obstacle is about
};

// Divides the iterations of the loop of `chain`, a softmax, among `parts` blocks as
// tiling/divide_softmax.h says. The number of rows must be a multiple of `parts` * kRowsOfPart.
DividedSoftmax WithSoftmaxParts(const ir::Func& func, const ir::KernelLaunchNode* launch,
                                const PlainGemm& chain, const analysis::RunningSoftmax& softmax,
                                int64_t parts);

// Bulk copies move 16 bytes at least.
inline constexpr int64_t kRowsOfPart = 4;

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_SOFTMAX_PARTS_H_
