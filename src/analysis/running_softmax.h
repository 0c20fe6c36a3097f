// Loops that compute a softmax over their iterations, as attention does.
#ifndef TILELANG_ANALYSIS_RUNNING_SOFTMAX_H_
#define TILELANG_ANALYSIS_RUNNING_SOFTMAX_H_

#include <optional>
#include <string>
#include <vector>

#include "ir/gemm.h"

namespace tilelang::analysis {

// A loop whose weights are exponentials relative to a maximum for each row, and whose sums are
// rescaled when the maximum changes. With e(x) = exp(x * scale), or 2^(x * scale), an iteration
//   - takes `before` from `highest`, and changes `highest`; or the other way round: `highest`
//     begins as `before`, which takes its value at the end (`carried`),
//   - computes factor[i] = e(before[i] - highest[i]),
//   - computes weights e(score - highest[i]),
//   - multiplies each of `sums` by the factor of its row and adds sums of weights, or products.
// Nothing else depends on `highest`, `before`, the factor or the weights, in the loop or behind it.
// Sums are then relative to e(highest), whatever `highest` is.
struct RunningSoftmax {
  ir::Buffer highest;
  ir::Buffer before;
  ir::Buffer factor;   // may be `before`
  ir::Buffer carried;  // `highest` or `before`, whose value the next iteration and the program read
  std::vector<ir::Buffer> sums;  // fragments whose first dimension is the row
  std::string exponential;       // "exp" or "exp2"
  double scale = 0;
  bool rises = false;   // `highest` is at least `before`, and not only the maximum of a tile
  bool bounds = false;  // scores of weights are at most `highest`
  bool guards = false;  // another number takes the place of minus infinity in `highest`
  // All that is read behind the loop are quotients of sums, which do not depend on `highest`.
  bool ends_in_quotients = false;
  const ir::ParallelForNode* rescaling = nullptr;  // the loop that computes the factor
};

// Returns the softmax of a loop of the launch; nothing if there is none, or if it is not certain.
std::optional<RunningSoftmax> FindRunningSoftmax(const ir::KernelLaunchNode* launch,
                                                 const ir::ForNode* loop);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_RUNNING_SOFTMAX_H_
