// The statements by which blocks of a cluster merge what each has of a running softmax.
#ifndef TILELANG_TILING_ROW_EXCHANGE_H_
#define TILELANG_TILING_ROW_EXCHANGE_H_

#include <vector>

#include "analysis/running_softmax.h"
#include "tiling/peer_blocks.h"

namespace tilelang::tiling {

// A tile of a part, and the tile of the rows that a block completes. Both have one or two
// dimensions, rows first.
struct DividedTile {
  ir::Buffer part;
  ir::Buffer own;
  int64_t column = 0;  // its first one among those that blocks send
};

// Returns a number that is at most each finite score, and that has a finite product with the scale.
double LowestMaximum(double scale);

// Blocks send each other columns of all tiles as one shared tile: a fragment's threads have
// neighbours of a column.
class RowExchange {
 public:
  // `begin`: the number from which maxima grow.
  RowExchange(const PeerBlocks& peers, const analysis::RunningSoftmax& softmax,
              std::vector<DividedTile> sums, DividedTile maxima, double begin, ir::Span span);

  // Appends what gives each block its own rows of all parts, merged.
  void Exchange(std::vector<ir::Stmt>* stmts) const;
  // Appends what sends all merged rows to the leader.
  void Gather(std::vector<ir::Stmt>* stmts) const;
  // Appends what gives the leader all merged rows, in the tiles of its part.
  void TakeAll(std::vector<ir::Stmt>* stmts) const;

  std::vector<ir::Stmt> Allocations(bool gathers) const;
  // Returns the layouts of tiles that bulk copies move as they lie.
  ir::Map<ir::Buffer, ir::Any> Layouts(bool gathers) const;

 private:
  ir::Buffer Tile(const char* name, const std::vector<int64_t>& shape, const char* scope,
                  const ir::Map<ir::String, ir::Any>& attrs = {}) const;
  std::vector<DividedTile> Tiles() const;
  ir::Region RowsOf(const ir::Buffer& tile, const ir::Expr& rank) const;
  ir::Array<ir::Expr> PlaceInAll(const DividedTile& tile, const ir::Array<ir::Expr>& at) const;
  ir::Expr Element(int64_t distance, const DividedTile& tile, const ir::Array<ir::Expr>& at) const;
  void MergeMaxima(std::vector<ir::Stmt>* stmts) const;
  ir::Stmt Merge(const DividedTile& sum) const;
  template <typename F>
  ir::Stmt ForElements(const ir::Buffer& tile, F each) const;

  const PeerBlocks& peers_;
  const analysis::RunningSoftmax& softmax_;
  std::vector<DividedTile> sums_;
  DividedTile maxima_;
  double begin_;
  ir::Span span_;
  int64_t rows_;                      // of a block
  ir::Buffer sent_;                   // by rank, of the own part
  std::vector<ir::Buffer> received_;  // by distance of ranks
  std::vector<ir::Buffer> factors_;
  ir::Buffer merged_;
  ir::Buffer gathered_;  // by rank, merged
};

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ROW_EXCHANGE_H_
