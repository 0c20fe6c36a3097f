/*!
 * Copies from shared to tensor memory: which tcgen05.cp instructions realise one, found by
 * comparing maps.
 */
#ifndef TILELANG_LAYOUT_TMEM_CP_H_
#define TILELANG_LAYOUT_TMEM_CP_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "layout/matrix_operand.h"
#include "layout/tcgen05_layout.h"

namespace tilelang::layout {

/*! The shapes of tcgen05.cp that fill all lanes: source rows x bits. */
enum class TmemCpShape : int { k128x256b, k128x128b, k64x128b_02_13, k64x128b_01_23, k32x128b };
constexpr int kNumTmemCpShapes = 5;

/*!
 * One shape (PTX ISA, "tcgen05.cp"). Row r of the source goes to lane lanes(r) and to the copies
 * of that lane; unit u of its 16-byte units to columns 4u to 4u + 3.
 */
struct TmemCpAtom {
  TmemCpShape shape;
  const char* name;  // of the device function's shape, without its k
  int64_t rows;
  int64_t units;
  Digits lanes;
  Digits copies;  // what is added to a lane
};
const TmemCpAtom& GetTmemCpAtom(TmemCpShape shape);

/*! One instruction of a plan. */
struct TmemCpInstruction {
  TmemCpShape shape;
  int64_t column;  // added to the address of the buffer
  int64_t bytes;   // from the matrix's base to the descriptor's start, before swizzling
};

struct TmemCpPlan {
  MatrixOperand operand;  // what every descriptor says
  std::vector<TmemCpInstruction> instructions;
  std::string reason;  // why there is no plan; empty when there is one
};

/*!
 * The instructions that copy, byte for byte, the tile of matrix `shared` (rows, columns) that
 * begins at `begin` to a tile of the same extents in tensor memory. Every cell an instruction
 * writes belongs to the tile.
 */
TmemCpPlan PlanTmemCp(const TmemLayout& tmem, const Layout& shared, const Coord& begin);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_TMEM_CP_H_
