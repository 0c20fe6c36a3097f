// Loads of tiles that have more rows than their tensor.
#ifndef TILELANG_IR_EXISTING_ROWS_H_
#define TILELANG_IR_EXISTING_ROWS_H_

namespace tilelang::ir {

// Annotation of a load into a whole tile (int): so many rows, the first ones of the tile, are all
// that can exist. Nothing else writes the tile. A role that loads it leaves out the others.
inline constexpr const char* kExistingRows = "existing_rows";

}  // namespace tilelang::ir

#endif  // TILELANG_IR_EXISTING_ROWS_H_
