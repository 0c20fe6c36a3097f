// Pairs of CTAs: the two of a cluster whose ranks differ in the last bit. On Blackwell their tensor
// cores compute one gemm together (.cta_group::2): each holds its rows of A and C, and half of B.
#ifndef TILELANG_OP_CTA_PAIR_H_
#define TILELANG_OP_CTA_PAIR_H_

#include "ir/copy_operator.h"
#include "ir/gemm.h"

namespace tilelang::op {

inline constexpr int64_t kPairBlocks = 2;
// An annotation (bool) of gemms that both CTAs of a pair compute: T.gemm(..., use_2cta=True).
inline constexpr const char* kInPairs = "use_2cta";
bool IsInPairs(const ir::GemmNode* op);
// All gemms of a kernel are, or none is.
bool HasGemmsInPairs(const ir::Stmt& s);

// The rank in the cluster of the CTA that issues for the pair: the even one. Whether it is this
// one.
ir::Expr PairLeader();
ir::Expr IsPairLeader();

// Returns whether a load completes at the leader. It does if it has that option, or if, in a
// kernel of pairs, its barrier is one of T.alloc_cluster_barrier.
bool CompletesAtLeader(const ir::CopyNode* op, bool in_pairs);
// Returns whether the program allocated the barrier for the blocks of a cluster.
bool IsOfCluster(const ir::Buffer& barrier);

}  // namespace tilelang::op

#endif  // TILELANG_OP_CTA_PAIR_H_
