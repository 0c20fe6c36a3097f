// Indices of tiles in shared memory, which kernels of this project's compiler tell in comments of
// their PTX: see codegen/tile_index.cc of the compiler.
#include "emulator/instructions/tile_index.h"

#include <bit>
#include <string>

#include "emulator/core/function_decoder.h"
#include "emulator/core/machine.h"

namespace tilelang::emulator {
namespace {

struct TileIndex {
  uint64_t size = 0;
  std::string tile;
};

template <typename T>
Flow CheckIndex(Warp& w, const Op& op, uint32_t mask) {
  const auto& of = op.Extra<TileIndex>();
  const T* index = w.Reg<T>(op.a[0]);
  uint32_t outside = 0;
  ForEachLane(mask, [&](int i) {
    outside |= (static_cast<uint64_t>(int64_t{index[i]}) >= of.size ? 1u : 0u) << i;
  });
  if (outside == 0 || !w.cta.cluster.launch.observer) return Flow::kNext;
  const int lane = std::countr_zero(outside);
  Report(w.Here(lane), "outside-tile",
         "index " + std::to_string(index[lane]) + " is outside of tile '" + of.tile +
             "' in shared memory, whose indices go from 0 to " + std::to_string(of.size - 1) +
             "; the access reaches other memory beside the tile");
  return Flow::kNext;
}

}  // namespace

// tilelang.index.s32 register, size, tile;
void DecodeTileIndex(Decoder& d) {
  const Type type = d.mods.TakeType();
  if (type != Type::kS32 && type != Type::kS64) d.Illegal("tilelang.index takes .s32 or .s64");
  d.PushSource(0, type);
  const int64_t size = d.Integer(d.operand(1));
  const ptx::Operand& tile = d.operand(2);
  if (tile.kind != ptx::Operand::Kind::kName) d.Illegal("tilelang.index needs the name of a tile");
  d.MakeExtra<TileIndex>({static_cast<uint64_t>(size), tile.name});
  d.op.handler = type == Type::kS32 ? CheckIndex<int32_t> : CheckIndex<int64_t>;
}

}  // namespace tilelang::emulator
