// A T.Parallel loop of an epilogue: which of its variables goes through the columns of tiles.
#ifndef TILELANG_EPILOGUE_EPILOGUE_LOOP_H_
#define TILELANG_EPILOGUE_EPILOGUE_LOOP_H_

#include <vector>

#include "epilogue/epilogue_region.h"

namespace tilelang::epilogue {

// Elements of a tensor that a statement goes through, with the same variables for the rows and
// columns of all statements.
struct GlobalAccess {
  ir::Buffer buffer;
  ir::Array<ir::Expr> indices;
  bool writes = false;
  ir::Span span;
  int64_t columns = 0;  // that it goes through, as far as known
};
bool SameElements(const GlobalAccess& a, const GlobalAccess& b);
// Returns whether one access uses other columns than the other one, such as the columns of the
// other half.
bool OtherColumns(const GlobalAccess& a, const GlobalAccess& b);
// Returns the access of a copy.
GlobalAccess AccessOf(const ir::Region& region, bool writes, const ir::Span& span);

class EpilogueLoop {
 public:
  // `region` has the tiles that are known.
  EpilogueLoop(const ir::ParallelForNode* loop, const EpilogueRegion& region);

  // The variable that is the last index of tiles, by its number.
  size_t column() const { return column_; }
  // Returns the part of a slice of the tile that contains an element, in the iterations of a part
  // of the slice.
  int64_t PartOf(const EpilogueTile& tile, const ir::Array<ir::Expr>& indices, int64_t slice,
                 int64_t part) const;
  // The memory of the block that the loop uses at that index.
  std::vector<ir::Buffer> AtColumns() const;
  // Returns what prevents slices of the loop; its text is empty if nothing does.
  EpilogueObstacle Check() const;
  // The elements of tensors that it goes through.
  std::vector<GlobalAccess> global() const;

 private:
  // Returns an expression with the names of the body replaced by their values.
  ir::Expr Expanded(const ir::Expr& e) const;
  ir::Array<ir::Expr> Indices(const ir::Array<ir::Expr>& indices) const;
  EpilogueObstacle CheckElement(const ir::Buffer& buffer, const ir::Array<ir::Expr>& indices,
                                bool writes, const ir::Span& span) const;
  EpilogueObstacle CheckColumn(const EpilogueTile& tile, const ir::Array<ir::Expr>& indices,
                               const ir::Span& span) const;
  EpilogueObstacle CheckForm() const;

  const ir::ParallelForNode* loop_;
  const EpilogueRegion& region_;
  ir::Map<ir::Var, ir::Expr> names_;
  size_t column_;  // as many as there are variables: none
};

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_EPILOGUE_LOOP_H_
