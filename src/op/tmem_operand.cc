#include "op/tmem_operand.h"

#include <algorithm>

namespace tilelang::op {

namespace {

struct Piece {
  TmemLayout held;
  TmemLayout wanted;
};

std::string CellText(int64_t lane, int64_t bit) {
  int64_t part = bit % layout::kTmemColumnBits;
  return "lane " + std::to_string(lane) + " column " +
         std::to_string(bit / layout::kTmemColumnBits) +
         (part == 0 ? "" : " bit " + std::to_string(part));
}

// Says where the first element that differs is, and where the instruction looks for it.
std::string Differing(const Piece& piece, const Coord& at, int64_t first_lane, int64_t corner) {
  return "has its element " + layout::CoordToString(at) + " in " +
         CellText(piece.held->lane->Forward(at), piece.held->bit->Forward(at)) +
         ", but the instruction has it in " +
         CellText(first_lane + piece.wanted->lane->Forward(at),
                  corner + piece.wanted->bit->Forward(at)) +
         ". It ";
}

// Returns why a piece is not where an instruction needs it. Rows lie alike in all columns, and
// columns alike in all rows, counted from the piece's corner. An instruction of M = 64 takes 16
// lanes of each 32, the lower or the upper ones.
std::string ProblemOf(const Piece& piece) {
  constexpr int64_t kHalfRows = 64;
  Coord extents = piece.held->Extents();
  bool halves = extents[0] == kHalfRows;
  int64_t first_lane = halves && piece.held->lane->Forward({0, 0}) == kUpperLane ? kUpperLane : 0;
  int64_t corner = piece.held->bit->Forward({0, 0});
  if (corner % layout::kTmemColumnBits != 0) {
    return "begins inside a 32-bit column of tensor memory; begin it at a multiple of " +
           std::to_string(layout::kTmemColumnBits / piece.held->element_bits) + " elements";
  }
  for (int64_t row = 0; row < extents[0]; ++row) {
    int64_t wanted = first_lane + piece.wanted->lane->Forward({row, 0});
    bool lane = piece.held->lane->Forward({row, 0}) == wanted;
    bool bit = piece.held->bit->Forward({row, 0}) - corner == piece.wanted->bit->Forward({row, 0});
    if (lane && bit) continue;
    std::string m = std::to_string(extents[0]);
    return Differing(piece, {row, 0}, first_lane, corner) + "has its rows in lanes " +
           piece.held->lane->ToString() + ", but an instruction of M = " + m +
           " has them in lanes " + piece.wanted->lane->ToString() + "; allocate a tile of " + m +
           " rows for it";
  }
  for (int64_t col = 0; col < extents[1]; ++col) {
    bool lane =
        piece.held->lane->Forward({0, col}) == first_lane + piece.wanted->lane->Forward({0, col});
    bool bit = piece.held->bit->Forward({0, col}) - corner == piece.wanted->bit->Forward({0, col});
    if (lane && bit) continue;
    return Differing(piece, {0, col}, first_lane, corner) + "has its columns at bits " +
           piece.held->bit->ToString() + ", but the instruction has them at " +
           piece.wanted->bit->ToString();
  }
  return "";
}

}  // namespace

std::string TmemOperandProblem(const TmemLayout& tile, TmemRole role, int64_t rows, int64_t columns,
                               const layout::MmaForm& form) {
  Coord extents = tile->Extents();
  int64_t bits = tile->element_bits;
  for (int64_t m = 0; m < extents[0]; m += rows) {
    for (int64_t n = 0; n < extents[1]; n += columns) {
      int64_t width = std::min(columns, extents[1] - n);
      TmemLayout wanted = role == TmemRole::kAccumulator
                              ? AccumulatorOfBlock(rows, width, bits, form)
                              : layout::OperandALayout(rows, width, bits, form);
      std::string problem = ProblemOf({tile.Slice({m, n}, {rows, width}), wanted});
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

}  // namespace tilelang::op
