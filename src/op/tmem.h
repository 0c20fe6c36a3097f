// Buffers in tensor memory: their layouts, and regions of them.
#ifndef TILELANG_OP_TMEM_H_
#define TILELANG_OP_TMEM_H_

#include "op/context.h"

namespace tilelang::op {

// Says what a buffer in tensor memory is for. Accumulators have a 32-bit cell for every element; A
// operands are packed.
enum class TmemRole { kAccumulator, kOperandA };

// An attribute of a tile: the accumulator (Buffer) whose columns it takes; blocks of 128 rows begin
// where that one's do.
inline constexpr const char* kColumnsOf = "columns_of";

// The first upper lane. A tile of 64 rows takes 16 of each 32 lanes, from lane 0 or from this lane
// on.
inline constexpr int64_t kUpperLane = 16;

// Returns where the `rows` rows of a block lie in an accumulator of `columns` columns. `form` is of
// the instruction, which has the rows of both blocks if it is a pair's.
TmemLayout AccumulatorOfBlock(int64_t rows, int64_t columns, int64_t bits,
                              const layout::MmaForm& form);

// The layout of a whole buffer [stages.., M, N]. Blocks of 128 rows, then stages, lie side by
// side in columns. Raises ResourceError unless M is 64 or a multiple of 128, or 32 in an
// accumulator of tcgen05.mma.ws. `form`: of the instruction for a block of rows.
TmemLayout LayoutForRole(const Buffer& buffer, TmemRole role, const layout::MmaForm& form = {});

// Gives a buffer that no gemm has claimed the layout of its default role: narrow types are packed.
void SetDefaultRole(const Buffer& buffer, const Span& user, Context* ctx);

// A region of a buffer: the static map of its moving dimensions relative to `column`, the address
// column (a uint32 expression: base + buffer + what the region's variable indices add). `span` is
// the operator's, for errors.
struct TmemTile {
  TmemLayout layout;
  Expr column;
};
TmemTile TileOf(const Region& region, const Span& span, Context* ctx);

// Columns of 32 bits that the buffer takes.
int64_t ColumnsOf(const Buffer& buffer, const TmemLayout& layout);
// Returns the columns of an accumulator [stages.., M, N], whatever instruction fills it, or more.
int64_t MostColumnsOf(const Buffer& accumulator);
// Returns the columns of all tiles that are allocated in `s`, if none shares the columns of
// another.
int64_t ColumnsOfTiles(const Stmt& s);
// An attribute of tiles (bool) that roles use at different times: they share no columns.
inline constexpr const char* kOfRoles = "of_roles";
// Describes what a call does to tensor memory at an address among its arguments (ir::TmemEffect),
// as an element of its attrs["tmem"].
Array<int64_t> TmemBox(int64_t argument, int64_t lanes, int64_t columns, bool writes,
                       const Buffer& buffer, const Context& ctx);
// Returns whether two buffers have a column in common.
bool ShareColumns(const Buffer& a, const Buffer& b, const LayoutMap& layouts,
                  const TensorMemory& memory);

}  // namespace tilelang::op

#endif  // TILELANG_OP_TMEM_H_
