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

}  // namespace tilelang::op
