#include "epilogue/epilogue_loads.h"

#include <algorithm>

#include "ir/same.h"
#include "ir/visitor.h"
#include "transform/loaded_elements.h"

namespace tilelang::epilogue {

using ir::Buffer;
using ir::Stmt;
using Kind = EpilogueTile::Kind;
using Place = EpilogueStep::Place;

namespace {

class Hoister {
 public:
  Hoister(EpilogueRegion* region, const std::function<bool(const Buffer&)>& is_constant)
      : region_(region), is_constant_(is_constant) {}

  void Run() {
    for (const EpilogueStep& step : region_->steps) {
      const auto* loop = step.stmt.as<ir::ParallelForNode>();
      bool sliced = step.place == Place::kSliced;
      if (sliced && loop != nullptr && step.column + 1 == loop->vars.size()) {
        TakeLoop(step, loop);
      } else {
        steps_.push_back(step);
        if (!sliced || !IsLoad(step.stmt)) continue;
        steps_.back().ahead = true;
        region_->loads_ahead.push_back(step.stmt.as<ir::CopyNode>()->src->buffer);
      }
    }
    region_->steps = std::move(steps_);
  }

 private:
  // A copy of a constant tensor to a tile of the region, before anything else touches it.
  bool IsLoad(const Stmt& s) const {
    const auto* copy = s.as<ir::CopyNode>();
    if (copy == nullptr || !copy->src->buffer.IsGlobal()) return false;
    const EpilogueTile* tile = region_->Find(copy->dst->buffer);
    bool own = tile->kind == Kind::kRegisters || tile->kind == Kind::kStaging;
    bool first = std::none_of(steps_.begin(), steps_.end(), [&](const EpilogueStep& step) {
      return !step.stmt.same_as(s) && ir::UsesBuffer(step.stmt, tile->buffer);
    });
    return own && first && is_constant_(copy->src->buffer);
  }

  void TakeLoop(EpilogueStep step, const ir::ParallelForNode* loop) {
    std::vector<Buffer> scalars;
    auto stays = [&](const ir::LoadNode* load) {
      return !is_constant_(load->buffer) || ir::HasSame(scalars, load->buffer);
    };
    transform::SplitLoop split = transform::SplitLoads(loop, stays);
    for (const transform::LoadedElements& elements : split.loaded) {
      if (elements.vars.empty()) scalars.push_back(elements.tensor);
    }
    if (!scalars.empty()) split = transform::SplitLoads(loop, stays);
    const ir::Var& column = loop->vars.back();
    ir::Map<Buffer, Buffer> shared;
    for (transform::LoadedElements& elements : split.loaded) {
      bool of_columns = elements.vars.back().same_as(column);
      if (of_columns && elements.vars.size() > 1) {
        steps_.push_back(
            {elements.Load(loop->span), Place::kSliced, elements.vars.size() - 1, true});
        region_->loads_ahead.push_back(elements.tensor);
        region_->tiles.push_back(
            {elements.tile, *ir::AsInt(elements.tile->shape.back()), Kind::kRegisters});
        continue;
      }
      if (of_columns) {
        Buffer tile = InShared(elements.tile);
        shared.Set(elements.tile, tile);
        elements.tile = tile;
      }
      region_->loads_before.push_back(elements.tensor);
      region_->hoisted.push_back(ir::Alloc(elements.tile, loop->span));
      region_->hoisted.push_back(elements.Load(loop->span));
    }
    step.stmt = ir::ParallelFor(loop->vars, loop->extents, ir::ReplaceBuffers(split.body, shared),
                                loop->annotations, loop->span);
    steps_.push_back(step);
  }

  static Buffer InShared(const Buffer& tile) {
    return Buffer(tile->name, tile->dtype, tile->shape, {}, "shared.dyn", {}, tile->span);
  }

  EpilogueRegion* region_;
  const std::function<bool(const Buffer&)>& is_constant_;
  std::vector<EpilogueStep> steps_;
};

}  // namespace

void HoistLoads(EpilogueRegion* region, const std::function<bool(const Buffer&)>& is_constant) {
  Hoister(region, is_constant).Run();
}

}  // namespace tilelang::epilogue
