// A launch whose tiles have another extent along one dimension of its gemm's result.
#ifndef TILELANG_TILING_TILE_CUTTER_H_
#define TILELANG_TILING_TILE_CUTTER_H_

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "arith/analyzer.h"
#include "ir/visitor.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Tiles have a multiple of so many rows.
inline constexpr int64_t kWgmmaRows = 64;
// Rows and columns of tiles of the transposed product are multiples of these (op/gemm_wgmma.h).
inline constexpr int64_t kRowUnit = 8;
inline constexpr int64_t kColumnUnit = kWgmmaRows;

// `block`: the index of the block that goes along the dimension, in steps of `from`, or which the
// body does not use, where there is one; null where one block has all of it, and tensors have no
// more than `to`. `end`: of tensors that the blocks store
// to along the dimension, where the last block of `to` may end elsewhere than that of `from`; null:
// it does not.
struct TileCut {
  ir::GemmDim dim;
  ir::Var block;
  int64_t from;
  int64_t to;
  ir::Expr end = {};
};

// Rewrites the body of a launch. What it meets that does not treat the elements along the dimension
// alike, each by itself, makes it give up.
class TileCutter : public ir::StmtMutator {
 public:
  TileCutter(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
             TileCut cut);
  // The body; null where it gives up.
  ir::Stmt Body();

  ir::Stmt MutateStmt(const ir::Stmt& s) override;
  ir::Expr Mutate(const ir::Expr& e) override;
  using StmtMutator::Rewrite;
  ir::Stmt Rewrite(const ir::ForNode* op) override;
  ir::Stmt Rewrite(const ir::ParallelForNode* op) override;
  ir::Stmt Rewrite(const ir::StoreNode* op) override;
  ir::Stmt Rewrite(const ir::CopyNode* op) override;
  ir::Stmt Rewrite(const ir::AssumeNode* op) override;
  ir::Stmt Rewrite(const ir::FillNode* op) override;
  ir::Stmt Rewrite(const ir::GemmNode* op) override;
  ir::Expr Rewrite(const ir::LoadNode* op) override;

 private:
  using Node = ir::ffi::Object;

  void FindTiles(const ir::Stmt& body);
  bool Enter(const ir::Buffer& tile, size_t dim);
  bool Spread(const ir::CopyNode* copy);
  bool Spread(const ir::ParallelForNode* loop);
  std::optional<size_t> DimOf(const ir::Buffer& tile) const;
  std::unordered_set<const Node*> Along(const ir::ParallelForNode* loop) const;
  ir::Region CutTile(const ir::Region& region);
  ir::Region CutTensor(const ir::Region& region, size_t dim);
  ir::Array<ir::Expr> CutIndices(const ir::Buffer& tile, const ir::Array<ir::Expr>& indices);
  bool IsAlong(const ir::Expr& e);
  bool Depends(const ir::Expr& e) const;
  bool HasOneBlock() const;
  bool EndsInTime(const ir::Buffer& tensor, size_t dim);
  ir::Expr Shift(const ir::Expr& e);

  const ir::KernelLaunchNode* launch_;
  const PlainGemm& plain_;
  TileCut cut_;
  arith::Analyzer analyzer_;
  ir::Map<ir::Buffer, ir::Buffer> tiles_;  // cut
  std::unordered_map<const Node*, size_t> dims_;
  std::unordered_set<const Node*> along_;  // variables of the parallel loop around
  ir::Stmt body_;
  bool in_parallel_ = false;
  bool is_new_ = false;  // the body does not use the index of the block
  bool fits_ = true;
};

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_CUTTER_H_
