#include "op/cta_pair.h"

#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/effect.h"

namespace tilelang::op {

using ir::Expr;

bool IsInPairs(const ir::GemmNode* op) { return op->annotations.count(kInPairs) != 0; }

bool HasGemmsInPairs(const ir::Stmt& s) {
  return ir::HasStmt(s, [&](const ir::Stmt& inner) {
    const auto* gemm = inner.as<ir::GemmNode>();
    return gemm != nullptr && IsInPairs(gemm);
  });
}

namespace {

Expr RankInPair() { return ir::FloorMod(BlockRank(), I32(kPairBlocks)); }

}  // namespace

Expr PairLeader() { return BlockRank() - RankInPair(); }

Expr IsPairLeader() { return ir::MakeEq(RankInPair(), I32(0)); }

bool CompletesAtLeader(const ir::CopyNode* op, bool in_pairs) {
  if (op->options->completes_at_leader) return true;
  const auto* barrier = op->mbar.defined() ? op->mbar.as<ir::LoadNode>() : nullptr;
  bool is_load = !IsAnnounced(op) && !op->block.defined() && op->options->cluster_mask == 0;
  return in_pairs && is_load && barrier != nullptr && IsOfCluster(barrier->buffer);
}

bool IsOfCluster(const ir::Buffer& barrier) { return barrier->attrs.count("of_cluster") != 0; }

}  // namespace tilelang::op
