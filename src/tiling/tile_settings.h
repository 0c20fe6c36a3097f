// The pass options that fix a choice of tiles.
#ifndef TILELANG_TILING_TILE_SETTINGS_H_
#define TILELANG_TILING_TILE_SETTINGS_H_

#include <tvm/ffi/cast.h>

#include "ir/function.h"
#include "ir/settings.h"

namespace tilelang::tiling {

class TileSettings {
 public:
  explicit TileSettings(const ir::Func& func)
      : columns_(func->attrs.Get(ir::kTileColumns)),
        pairs_(func->attrs.Get(ir::kTilePairs)),
        parts_(func->attrs.Get(ir::kTileParts)) {}

  // Returns whether tiles of so many columns agree with the options, in pairs of blocks or not, of
  // which so many blocks share the iterations.
  bool Allow(int64_t columns, bool pairs, int64_t parts) const {
    return (!columns_ || (*columns_).cast<int64_t>() == columns) &&
           (!pairs_ || (*pairs_).cast<bool>() == pairs) &&
           (!parts_ || (*parts_).cast<int64_t>() == parts);
  }

 private:
  ir::ffi::Optional<ir::Any> columns_, pairs_, parts_;
};

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_SETTINGS_H_
