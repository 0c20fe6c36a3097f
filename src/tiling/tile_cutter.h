// A launch whose tiles have another extent along one dimension of its gemm's result.
#ifndef TILELANG_TILING_TILE_CUTTER_H_
#define TILELANG_TILING_TILE_CUTTER_H_

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Tiles have a multiple of so many rows.
inline constexpr int64_t kWgmmaRows = 64;
// Rows and columns of tiles of the transposed product are multiples of these (op/gemm_wgmma.h).
inline constexpr int64_t kRowUnit = 8;
inline constexpr int64_t kColumnUnit = kWgmmaRows;
// Returns the unit of the rows. Rows of a transposed A are contiguous: they fill swizzles of 128
// bytes, because the tensor memory accelerator loads boxes of narrower ones as slowly as wide
// boxes.
int64_t RowUnitOf(const PlainGemm& plain);

// Cuts along a dimension of the result. `loop`: null, or the loop whose iterations take `from`
// elements each, of columns of the first GEMM's result that another one multiplies and that
// reductions join: then `block` is its variable, and statements outside of it stay.
//
// `block`: the index of the block that goes along the dimension, in steps of `from`, or which the
// body does not use, where there is one; null where one block has all of it, and tensors have no
// more than `to`. `end`: as many elements of the result as both grids have, where the last block of
// `to` may end elsewhere than that of `from`; null where both end together. `extends_loop`: of the
// blocks that one replaces, all may run as many iterations of the loop as the last one.
struct TileCut {
  ir::GemmDim dim;
  ir::Var block;
  int64_t from;
  int64_t to;
  ir::Expr end = {};
  bool extends_loop = false;
  const ir::ForNode* loop = nullptr;
};

// Rewrites the body of a launch. It gives up where a statement does not treat the elements along
// the dimension alike, each by itself; where a tensor that is stored to goes on behind `end`; and
// where a block could touch what another one writes.
class TileCutter : public ir::StmtMutator {
 public:
  TileCutter(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
             TileCut cut);
  // The body of the launch, or of the loop; null where it gives up.
  ir::Stmt Body();
  // Returns a statement in which the cut tiles replace those of the program.
  ir::Stmt WithCutTiles(const ir::Stmt& s) const { return ir::ReplaceBuffers(s, tiles_); }
  // Returns whether the statement names a tile that is cut.
  bool Names(const ir::Stmt& s) const;
  // Returns the place of the statement, beside loads of the loop, at which it gave up; null for
  // none.
  const ir::Span& obstacle() const { return obstacle_; }
  // Returns the cut tile, in the body; null for a tile that stays whole.
  ir::Buffer CutOf(const ir::Buffer& tile) const;

  ir::Stmt MutateStmt(const ir::Stmt& s) override;
  ir::Expr Mutate(const ir::Expr& e) override;
  using StmtMutator::Rewrite;
  ir::Stmt Rewrite(const ir::ForNode* op) override;
  ir::Stmt Rewrite(const ir::ParallelForNode* op) override;
  ir::Stmt Rewrite(const ir::StoreNode* op) override;
  ir::Stmt Rewrite(const ir::CopyNode* op) override;
  ir::Stmt Rewrite(const ir::AssumeNode* op) override;
  ir::Stmt Rewrite(const ir::FillNode* op) override;
  ir::Stmt Rewrite(const ir::ReduceNode* op) override;
  ir::Stmt Rewrite(const ir::GemmNode* op) override;
  ir::Expr Rewrite(const ir::LoadNode* op) override;

 private:
  using Node = ir::ffi::Object;
  // An access of a tensor: where element 0 of the result along the dimension has its place.
  struct Touch {
    ir::Buffer tensor;
    bool adds;                  // to what is there
    std::optional<size_t> dim;  // of the tensor; none where the place does not follow the element
    ir::Expr first;
  };

  void FindTiles(const ir::Stmt& body);
  void NoteObstacle(const ir::Stmt& s);
  Touch TouchOf(const ir::Effect& effect);
  Touch TouchOf(const ir::CopyNode* copy, const ir::Region& tensor);
  std::unordered_map<const Node*, std::vector<Touch>> Touches(const ir::Stmt& body);
  bool Enter(const ir::Buffer& tile, size_t dim, int64_t unit = 1);
  bool EnterAlong(const ir::GemmNode* gemm, ir::GemmDim dim);
  bool Spread(const ir::GemmNode* gemm);
  bool Spread(const ir::CopyNode* copy);
  bool Spread(const ir::ReduceNode* reduce);
  bool Spread(const ir::ParallelForNode* loop);
  std::optional<size_t> DimOf(const ir::Buffer& tile) const;
  int64_t UnitOf(const ir::Buffer& tile) const;
  std::unordered_set<const Node*> Along(const ir::ParallelForNode* loop) const;
  ir::Region CutTile(const ir::Region& region);
  ir::Region CutTensor(const ir::Region& region, size_t dim, int64_t unit = 1);
  ir::Stmt CutAtoms(const ir::CopyNode* op);
  ir::Array<ir::Expr> CutIndices(const ir::Buffer& tile, const ir::Array<ir::Expr>& indices);
  bool IsAlong(const ir::Expr& e, int64_t unit = 1);
  bool Depends(const ir::Expr& e) const;
  bool HasOneBlock() const;
  bool EndsInTime(const ir::Buffer& tensor, size_t dim, const ir::Expr& index);
  ir::Expr First(const ir::Expr& index) const;
  bool KeepsBlocksApart(const ir::Stmt& body);
  ir::Expr Shift(const ir::Expr& e, int64_t unit = 1);

  const ir::KernelLaunchNode* launch_;
  const PlainGemm& plain_;
  TileCut cut_;
  arith::Analyzer analyzer_;
  ir::Map<ir::Buffer, ir::Buffer> tiles_;  // cut
  std::unordered_map<const Node*, size_t> dims_;
  std::unordered_map<const Node*, ir::GemmDim> dims_of_gemms_;  // along which each is cut
  // Elements of the result that an index of a tile counts along that dimension, where several:
  // atoms of scale factors.
  std::unordered_map<const Node*, int64_t> units_;
  std::unordered_set<const Node*> along_;  // variables of the parallel loop around
  ir::Stmt body_;
  bool in_parallel_ = false;
  bool is_new_ = false;  // the body does not use the index of the block
  bool fits_ = true;
  bool gave_up_ = false;
  ir::Span obstacle_;
};

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_CUTTER_H_
