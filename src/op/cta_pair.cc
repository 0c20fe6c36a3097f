#include "op/cta_pair.h"

#include "ir/visitor.h"
#include "op/copy_cluster.h"
#include "op/effect.h"

namespace tilelang::op {

using ir::Expr;

bool IsInPairs(const ir::GemmNode* op) { return op->annotations.count(kInPairs) != 0; }

bool HasGemmsInPairs(const ir::Stmt& s) {
  bool found = false;
  ir::WalkStmts(s, [&](const ir::Stmt& inner) {
    const auto* gemm = inner.as<ir::GemmNode>();
    found |= gemm != nullptr && IsInPairs(gemm);
    return !found;
  });
  return found;
}

Expr PairLeader() { return BlockRank() - ir::FloorMod(BlockRank(), I32(2)); }

Expr IsPairLeader() { return ir::MakeEq(ir::FloorMod(BlockRank(), I32(2)), I32(0)); }

}  // namespace tilelang::op
