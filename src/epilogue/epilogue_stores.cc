#include "epilogue/epilogue_stores.h"

#include <algorithm>
#include <optional>

#include "arith/analyzer.h"
#include "ir/visitor.h"

namespace tilelang::epilogue {

using ir::Buffer;
using Kind = EpilogueTile::Kind;

namespace {

bool IsResult(const EpilogueRegion& region, const EpilogueStep& step) {
  const auto* copy = step.stmt.as<ir::CopyNode>();
  if (copy == nullptr || step.place != EpilogueStep::Place::kSliced) return false;
  const EpilogueTile* tile = region.Find(copy->src->buffer);
  if (tile == nullptr || !copy->IsPlain()) return false;
  bool registers = tile->kind == Kind::kAccumulator || tile->kind == Kind::kRegisters;
  const Buffer& to = copy->dst->buffer;
  return registers && to.IsGlobal() && to->dtype.lanes == 1;
}

// The elements of a tensor that a loop copies to the same places of `tile`, if they are a box.
std::optional<ir::Region> BoxOf(const ir::ParallelForNode* loop, const Buffer& tile) {
  const auto* store = loop->body.as<ir::StoreNode>();
  const auto* load = store == nullptr ? nullptr : store->value.as<ir::LoadNode>();
  if (load == nullptr || !store->buffer.same_as(tile)) return std::nullopt;
  arith::Analyzer analyzer;
  ir::Array<ir::Expr> mins;
  ir::Array<ir::Expr> extents;
  size_t next = 0;  // variable, in the order of the dimensions
  for (const ir::Expr& index : load->indices) {
    bool follows = next < loop->vars.size() && ir::UsesVar(index, loop->vars[next]);
    ir::Expr min = index;
    if (follows) {
      min = analyzer.Simplify(index - ir::CastTo(index.dtype(), loop->vars[next]));
      extents.push_back(ir::CastTo(index.dtype(), loop->extents[next++]));
    } else {
      extents.push_back(ir::Const(index.dtype(), 1));
    }
    for (const ir::Var& var : loop->vars) {
      if (ir::UsesVar(min, var)) return std::nullopt;
    }
    mins.push_back(min);
  }
  if (next != loop->vars.size()) return std::nullopt;
  return ir::Region(load->buffer, mins, extents);
}

}  // namespace

void StageLoads(EpilogueRegion* region, const StagedCopy& fits) {
  ir::Map<Buffer, Buffer> staged;
  for (EpilogueStep& step : region->steps) {
    const auto* loop = step.stmt.as<ir::ParallelForNode>();
    if (loop == nullptr || !step.ahead) {
      step.stmt = ir::ReplaceBuffers(step.stmt, staged);
      continue;
    }
    const auto* store = loop->body.as<ir::StoreNode>();
    const Buffer& registers = store->buffer;
    Buffer tile(registers->name, registers->dtype, registers->shape, {}, "shared.dyn", {},
                registers->span);
    auto box = BoxOf(loop, registers);
    if (!box) continue;
    ir::Copy load(*box, ir::Region::Whole(tile), loop->span);
    if (!fits(load.get(), tile)) continue;
    auto at = std::find_if(region->tiles.begin(), region->tiles.end(),
                           [&](const auto& known) { return known.buffer.same_as(registers); });
    *at = {tile, at->width, Kind::kStaging, true};
    staged.Set(registers, tile);
    step.stmt = load;
  }
}

void StageStores(EpilogueRegion* region, const StagedCopy& fits) {
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
    ir::Region whole = ir::Region::Whole(tile);
    ir::Copy store(whole, copy->dst, copy->span);
    if (!fits(store.get(), tile)) {
      steps.push_back(std::move(step));
      continue;
    }
    region->tiles.push_back({tile, *ir::AsInt(copy->src->extents.back()), Kind::kStaging, true});
    steps.push_back({ir::Copy(copy->src, whole, copy->span)});
    steps.push_back({store});
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

}  // namespace tilelang::epilogue
