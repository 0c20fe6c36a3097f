// Finds whether the blocks of a cluster agree: on conditions, and on how often loops run.
#ifndef TILELANG_CHECK_CLUSTER_AGREEMENT_H_
#define TILELANG_CHECK_CLUSTER_AGREEMENT_H_

#include <map>
#include <set>
#include <vector>

#include "arith/analyzer.h"
#include "ir/stmt.h"
#include "ir/visitor.h"

namespace tilelang::check {

// Ranks of blocks in their cluster.
using Ranks = std::vector<int64_t>;

// The conditions under which a loop of this body, or an iteration of it, is left.
std::vector<ir::Expr> LeavesOf(const ir::Stmt& body);

// Values that blocks compute from their indices, and keep in variables. What they load from tensors
// and tiles is taken to be the same: a program that decides by it knows why.
class ClusterAgreement {
 public:
  explicit ClusterAgreement(const ir::KernelLaunchNode* launch);

  // Returns whether the value may differ between the blocks, that is, it is not proved to be the
  // same.
  bool MayDiffer(const ir::Expr& e, const Ranks& blocks);
  // Returns whether the condition may hold in the block of this rank, that is, it is not proved to
  // be false.
  bool MayHold(const ir::Expr& condition, int64_t rank);
  // The same expression with the values of names.
  ir::Expr ValueOf(const ir::Expr& e) const { return ir::Substitute(e, values_); }

 private:
  friend class AssignmentFinder;
  using Variables = std::set<const tvm::ffi::Object*>;
  // A store to a variable of each thread (T.alloc_var).
  struct Assignment {
    const tvm::ffi::Object* variable;
    std::vector<ir::Expr> decided_by;  // its value, and whether and how often it is stored
  };

  // The variables that may differ.
  const Variables& VariablesApart(const Ranks& blocks);
  bool MayDiffer(const ir::Expr& e, const Ranks& blocks, const Variables& apart);
  ir::Expr InBlock(const ir::Expr& e, int64_t rank) const;
  bool AreSame(const ir::Expr& a, const ir::Expr& b);

  std::vector<int64_t> dims_;          // of the cluster, x first
  ir::Array<ir::Var> block_vars_;      // of the launch, likewise
  std::vector<ir::Var> clusters_;      // the index of the cluster along each
  ir::Map<ir::Var, ir::Expr> values_;  // of names and loop variables, in terms of others than these
  std::vector<Assignment> assignments_;
  std::map<Ranks, Variables> apart_;
  arith::Analyzer analyzer_;
};

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CLUSTER_AGREEMENT_H_
