#include "transform/epilogue_stores.h"

#include <algorithm>

namespace tilelang::transform {

using ir::Buffer;
using Kind = EpilogueTile::Kind;

namespace {

// Of 16 bits at most: a thread's own stores of more fill sectors.
constexpr int kMostBits = 16;

bool IsResult(const EpilogueRegion& region, const EpilogueStep& step) {
  const auto* copy = step.stmt.as<ir::CopyNode>();
  if (copy == nullptr || step.place != EpilogueStep::Place::kSliced) return false;
  const EpilogueTile* tile = region.Find(copy->src->buffer);
  if (tile == nullptr || !copy->annotations.empty()) return false;
  bool registers = tile->kind == Kind::kAccumulator || tile->kind == Kind::kRegisters;
  const Buffer& to = copy->dst->buffer;
  return registers && to.IsGlobal() && to->dtype.bits <= kMostBits && to->dtype.lanes == 1;
}

}  // namespace

void StageStores(EpilogueRegion* region, const StagedStore& fits) {
  std::vector<EpilogueStep> steps;
  for (EpilogueStep& step : region->steps) {
    const auto* copy = step.stmt.as<ir::CopyNode>();
    if (!IsResult(*region, step)) {
      steps.push_back(std::move(step));
      continue;
    }
    const Buffer& from = copy->src->buffer;
    const Buffer& to = copy->dst->buffer;
    Buffer tile(ir::String(std::string(from->name) + "_" + std::string(to->name)), to->dtype,
                copy->src->extents, {}, "shared.dyn", {}, copy->span);
    if (!fits(copy, tile)) {
      steps.push_back(std::move(step));
      continue;
    }
    ir::Region whole = ir::Region::Whole(tile);
    region->tiles.push_back({tile, *ir::AsInt(copy->src->extents.back()), Kind::kStaging, true});
    steps.push_back({ir::Copy(copy->src, whole, {}, copy->span)});
    steps.push_back({ir::Copy(whole, copy->dst, {}, copy->span)});
  }
  region->steps = std::move(steps);
}

int64_t BytesOfTile(const Buffer& tile) {
  int64_t elements = 1;
  for (const ir::Expr& extent : tile->shape) elements *= *ir::AsInt(extent);
  return elements * ir::Bytes(tile->dtype);
}

int64_t BytesOfSlots(const EpilogueRegion& region, int64_t slots) {
  int64_t bytes = 0;
  for (const EpilogueTile& tile : region.tiles) {
    if (tile.kind != Kind::kStaging) continue;
    int64_t whole = BytesOfTile(tile.buffer);
    int64_t used = std::min(slots, region.slices.count);
    bytes += whole / region.slices.count * used - (tile.added ? 0 : whole);
  }
  return bytes;
}

}  // namespace tilelang::transform
