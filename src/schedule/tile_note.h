// The tiles that were considered for a GEMM, for kernel.schedule().
#ifndef TILELANG_SCHEDULE_TILE_NOTE_H_
#define TILELANG_SCHEDULE_TILE_NOTE_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

class TileCandidateNode : public tvm::ffi::Object {
 public:
  int64_t rows = 0;  // of the tile of a block
  int64_t columns = 0;
  int64_t parts = 1;        // blocks that share the iterations of a tile
  bool pairs = false;       // two blocks multiply with halves of B
  bool transposed = false;  // the product
  double microseconds = 0;  // of the launch, by the model of tiles
  // "chosen"; "excluded: <reason>"; or "" for a candidate that the model predicts more time for.
  ir::String outcome;

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.schedule.TileCandidate", TileCandidateNode,
                                    tvm::ffi::Object);
};

// An attribute of launches: Array<TileCandidate>, the least time first.
inline constexpr const char* kTileCandidates = "tile_candidates";

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_TILE_NOTE_H_
