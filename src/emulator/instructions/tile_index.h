// The instruction that our compiler writes in comments of its PTX.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_TILE_INDEX_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_TILE_INDEX_H_

namespace tilelang::emulator {

class Decoder;

// Decodes "tilelang.index".
void DecodeTileIndex(Decoder& d);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_TILE_INDEX_H_
