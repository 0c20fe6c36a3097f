// Taking the number of the next tile: how T.Persistent asks a scheduler.
#ifndef TILELANG_IR_NEXT_TILE_H_
#define TILELANG_IR_NEXT_TILE_H_

#include <optional>

#include "ir/stmt.h"

namespace tilelang::ir {

// A call of kNextTile, the value of a Bind in the body of the loop over tiles: a number of [0,
// tiles), or -1 when there are no more. All threads of the block call it, and all get the same
// number.
struct NextTile {
  int64_t number = 0;  // of the loop in its kernel
  Expr first;          // the block's first place in the order of tiles
  Expr stride;         // places below are the first ones of blocks
  Expr places;         // how many there are
  Expr tiles;          // how many tiles
  // int32: the places given so far, and the blocks that got none. Null: the grid has a block for
  // each place, and cluster launch control gives the blocks that have not started.
  Buffer counter;
  Buffer table;  // the tile at each place; null: its number
};

// An attribute of buffers: they hold numbers that a scheduler has given, in shared memory, or count
// them.
inline constexpr const char* kTileNumbers = "tile_numbers";

// The intrinsic that reads a list of tiles, (table, from, place, tiles): the entry of the table at
// `place`, or -1 if one of [from, place] is no tile. All threads that share the arguments get the
// same number, as long as nothing writes to the table.
inline constexpr const char* kListedTile = "listed_tile";
// The table that the call reads, or null: it is another call.
Buffer ListedTable(const CallNode* call);

// The call of a Bind, or nothing.
std::optional<NextTile> AsNextTile(const Stmt& s);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_NEXT_TILE_H_
