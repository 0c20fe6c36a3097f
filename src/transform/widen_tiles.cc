#include "transform/widen_tiles.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "ir/remark.h"
#include "ir/visitor.h"
#include "transform/residency.h"
#include "transform/retile.h"
#include "transform/share_loads.h"
#include "transform/tile_cost.h"

namespace tilelang::transform {

using ir::Stmt;

namespace {

class TileWidener : public ir::StmtMutator {
 public:
  TileWidener(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && ir::AsInts(op->grid) && StoresOnly(op, plain);
    if (!possible || !HasNarrowTiles(op, plain) || BlocksOf(op) <= target_->sm_count) return self;
    double least = GridOf(op, plain).Cost(target_);
    Stmt best = self;
    const TileExtents* chosen = nullptr;
    for (const TileExtents& tile : kWider) {
      Stmt wide = WithWiderTiles(func_, op, tile, target_);
      if (!wide.defined()) continue;
      double cost = CostOf(wide.as<ir::KernelLaunchNode>());
      if (cost >= kClearGain * least) continue;
      least = cost;
      best = wide;
      chosen = &tile;
    }
    if (chosen != nullptr) Say(best.as<ir::KernelLaunchNode>(), *chosen);
    return best;
  }

 private:
  double CostOf(const ir::KernelLaunchNode* wide) const {
    PlainGemm plain = FindPlainGemm(wide);
    TileGrid grid = GridOf(wide, plain);
    bool persistent = BytesOfResult(wide, plain).has_value();
    int64_t rows = RowsThatShare(func_, wide, plain);
    return persistent ? PlanPersistent(grid, rows, target_).cost : grid.Cost(target_);
  }

  static void Say(const ir::KernelLaunchNode* wide, const TileExtents& tile) {
    Remark(wide->span, "tiles",
           "T.Kernel: " + std::to_string(BlocksOf(wide)) + " blocks of " +
               std::to_string(*ir::AsInt(wide->threads[0])) + " threads compute " + Text(tile) +
               " elements each instead of " + Text(kNarrow) +
               ": they load fewer bytes for as many products. The pass option "
               "tl.disable_tile_widening turns this off");
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func WidenTiles(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(TileWidener(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
