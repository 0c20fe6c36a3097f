// Whether the blocks of a cluster agree: on conditions, and on how often loops run.
#ifndef TILELANG_CHECK_CLUSTER_AGREEMENT_H_
#define TILELANG_CHECK_CLUSTER_AGREEMENT_H_

#include <vector>

#include "arith/analyzer.h"
#include "ir/stmt.h"

namespace tilelang::check {

// Ranks of blocks in their cluster.
using Ranks = std::vector<int64_t>;

// Values that blocks compute from their indices. What they load from memory is taken to be the
// same: a program that decides by it knows why.
class ClusterAgreement {
 public:
  explicit ClusterAgreement(const ir::KernelLaunchNode* launch);

  // From here on the variable is this value.
  void Bind(const ir::Var& var, const ir::Expr& value);
  // Whether the value may differ between the blocks: it is not proved to be the same.
  bool MayDiffer(const ir::Expr& e, const Ranks& blocks);

 private:
  ir::Expr InBlock(const ir::Expr& e, int64_t rank) const;
  bool AreSame(const ir::Expr& a, const ir::Expr& b);

  std::vector<int64_t> dims_;          // of the cluster, x first
  ir::Array<ir::Var> block_vars_;      // of the launch, likewise
  std::vector<ir::Var> clusters_;      // the index of the cluster along each
  ir::Map<ir::Var, ir::Expr> values_;  // of variables, in terms of others than these
  arith::Analyzer analyzer_;
};

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CLUSTER_AGREEMENT_H_
