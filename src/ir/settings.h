// Attributes of functions that carry settings of the user to the passes that read them.
#ifndef TILELANG_IR_SETTINGS_H_
#define TILELANG_IR_SETTINGS_H_

namespace tilelang::ir {

// The largest number of columns of an epilogue slice (int): 0 for whole tiles, or "auto".
inline constexpr const char* kEpilogueColumns = "epilogue_columns";
// Results go from registers to their tensors as the program says (bool).
inline constexpr const char* kDirectResults = "direct_results";
// Pipelined loops have the stages, and launches the blocks an SM, that the program says (bool).
inline constexpr const char* kGivenStages = "given_stages";
inline constexpr const char* kGivenBlocks = "given_blocks";
// Blocks keep the order of their grid, and compute the tiles that the program gives each (bool).
inline constexpr const char* kGivenOrder = "given_order";
inline constexpr const char* kOneTileEach = "one_tile_each";
// Each block loads its own tiles (bool).
inline constexpr const char* kOwnLoads = "own_loads";
// Tiles of grids of more than a wave are as wide as the program's (bool).
inline constexpr const char* kNarrowTiles = "narrow_tiles";
// No blocks share a sum (bool).
inline constexpr const char* kWholeSums = "whole_sums";
// All calls run the same launches (bool): no launches are alternatives.
inline constexpr const char* kOneForAllCalls = "one_for_all_calls";
// Settings of the tiles of straightforward GEMMs (tiling/choose_tiles.h): their columns (int),
// whether pairs of blocks compute them (bool), and how many blocks share the iterations of one tile
// (int).
inline constexpr const char* kTileColumns = "tile_columns";
inline constexpr const char* kTilePairs = "tile_pairs";
inline constexpr const char* kTileParts = "tile_parts";
// The largest number of elements along a reduced axis that one iteration takes (int). Tiles of
// T.alloc_reducer have this attribute, too.
inline constexpr const char* kReductionChunk = "reduction_chunk";

}  // namespace tilelang::ir

#endif  // TILELANG_IR_SETTINGS_H_
