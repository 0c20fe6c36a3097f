// Views of tiles in tensor memory.
#ifndef TILELANG_IR_TMEM_VIEWS_H_
#define TILELANG_IR_TMEM_VIEWS_H_

namespace tilelang::ir {

// An attribute of a tile in tensor memory: the tile (Buffer) whose memory it views with another
// type of elements. ir::MemoryOf gives both the same object.
inline constexpr const char* kViewOf = "view_of";

}  // namespace tilelang::ir

#endif  // TILELANG_IR_TMEM_VIEWS_H_
