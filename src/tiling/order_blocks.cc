#include "tiling/order_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>

#include "analysis/grid_blocks.h"
#include "analysis/independent_blocks.h"
#include "arith/analyzer.h"
#include "ir/changed_launch.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "schedule/shared_bytes.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// Extents that are known only at run time count as this many blocks.
constexpr int64_t kManyBlocks = 64;
// The order changes only if a wave then loads less by at least this factor.
constexpr double kWorthwhile = 0.9;

// Bytes that an iteration of the loops loads.
struct Loads {
  int64_t by_row = 0;     // by the second block index alone
  int64_t by_column = 0;  // by the first one alone
};

bool Uses(const ir::Region& region, const ir::Var& var) {
  return std::any_of(region->mins.begin(), region->mins.end(),
                     [&](const Expr& min) { return ir::UsesVar(min, var); });
}

Loads LoadsOf(const ir::KernelLaunchNode* launch) {
  Loads loads;
  auto add = [&](const ir::Region& region) {
    bool column = Uses(region, launch->block_vars[0]);
    bool row = Uses(region, launch->block_vars[1]);
    if (row == column) return;
    int64_t bytes = ir::Bytes(region->buffer->dtype);
    for (const Expr& extent : region->extents) bytes *= ir::AsInt(extent).value_or(1);
    (row ? loads.by_row : loads.by_column) += bytes;
  };
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr) return true;
    ir::WalkStmts(loop->body, [&](const Stmt& inner) {
      const auto* copy = inner.as<ir::CopyNode>();
      if (copy != nullptr && copy->src->buffer.IsGlobal()) add(copy->src);
      return true;
    });
    return false;
  });
  return loads;
}

// Returns the bytes of the tiles in a wave of `wave` blocks, by panels of `panel` rows.
double BytesOfWave(const Loads& loads, int64_t wave, int64_t panel, int64_t columns) {
  double across = std::min<double>(static_cast<double>(wave) / static_cast<double>(panel),
                                   static_cast<double>(columns));
  double rows = static_cast<double>(wave) / across;
  return rows * static_cast<double>(loads.by_row) + across * static_cast<double>(loads.by_column);
}

// Returns the rows of a panel: a divisor of the wave a little below the best number, where there is
// one, so that a wave is whole columns; and such that all panels have about as many.
int64_t RowsOfPanel(const Loads& loads, int64_t wave, int64_t rows) {
  double ratio = static_cast<double>(loads.by_column) / static_cast<double>(loads.by_row);
  double best = std::sqrt(static_cast<double>(wave) * ratio);
  auto panel = static_cast<int64_t>(best + 0.5);
  for (auto p = static_cast<int64_t>(best); static_cast<double>(p) >= 0.6 * best && p > 0; --p) {
    if (wave % p != 0) continue;
    panel = p;
    break;
  }
  panel = std::clamp<int64_t>(panel, 1, rows);
  int64_t panels = (rows + panel - 1) / panel;
  return (rows + panels - 1) / panels;
}

bool IsOrdered(const ir::KernelLaunchNode* op) { return op->attrs.count("swizzle_panel") != 0; }

struct GridExtents {
  int64_t columns;
  int64_t rows;
};
GridExtents ExtentsOf(const ir::KernelLaunchNode* op) {
  return {ir::AsInt(ir::ExtentInside(op->grid[0])).value_or(kManyBlocks),
          ir::AsInt(ir::ExtentInside(op->grid[1])).value_or(kManyBlocks)};
}

// Panels that a wave gains by, and what it loads then; of no rows where there are none.
struct Panel {
  int64_t rows = 0;
  int64_t percent = 100;
};
Panel ChoosePanel(const Loads& loads, const GridExtents& grid, int64_t wave) {
  int64_t panel = RowsOfPanel(loads, wave, grid.rows);
  double after = BytesOfWave(loads, wave, panel, grid.columns);
  double before = BytesOfWave(loads, wave, 1, grid.columns);
  if (panel < 2 || after > kWorthwhile * before) return {};
  return {panel, static_cast<int64_t>(100 * after / before + 0.5)};
}

ir::KernelLaunch WithPanels(const ir::KernelLaunchNode* op, int64_t panel) {
  auto attrs = op->attrs;
  attrs.Set("swizzle_panel", panel);
  attrs.Set("swizzle_order", ir::String("row"));
  return ir::WithAttrs(op, attrs);
}

class BlockOrderer : public ir::StmtMutator {
 public:
  explicit BlockOrderer(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    bool decided = IsOrdered(op) || op->attrs.count("cluster_dims") != 0;
    if (op->grid.size() < 2 || decided) return self;
    Loads loads = LoadsOf(op);
    if (loads.by_row == 0 || loads.by_column == 0 || !analysis::AreIndependent(op)) return self;
    int64_t wave = target_->sm_count * BlocksPerSm(op, target_, schedule::SharedBytes(op));
    GridExtents grid = ExtentsOf(op);
    if (std::min(grid.columns * grid.rows, analysis::BlocksOf(op)) <= wave) return OneWave(op);
    Panel panel = ChoosePanel(loads, grid, wave);
    if (panel.rows < 2) return self;
    return ByPanels(op, panel.rows,
                    "blocks that run at the same time load " + std::to_string(panel.percent) +
                        " % of the tiles of A and B that they would load otherwise");
  }

 private:
  // Blocks that are neighbours share tiles of the tensor of which there are more.
  Stmt OneWave(const ir::KernelLaunchNode* op) const {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t blocks = analysis::BlocksOf(op);
    int64_t rows = arith::Analyzer().ConstBounds(op->grid[1]).hi;
    // Rows of the call that nothing bounds: as if there were as many columns.
    if (!ir::AsInt(ir::ExtentInside(op->grid[1])) && rows > blocks) {
      rows = static_cast<int64_t>(std::sqrt(static_cast<double>(blocks - 1)));
    }
    if (op->grid.size() != 2 || rows < 2 || rows * rows >= blocks) return self;
    if (2 * blocks <= target_->sm_count) return self;
    return ByPanels(op, rows,
                    "neighbouring blocks run at the same time, and load the same columns");
  }

  static Stmt ByPanels(const ir::KernelLaunchNode* op, int64_t panel, const std::string& why) {
    Remark(op->span, "order",
           "T.Kernel: blocks are numbered by panels of " + std::to_string(panel) +
               " rows, as by T.use_swizzle(" + std::to_string(panel) + "): " + why +
               ". T.use_swizzle of the program comes first; the pass option "
               "tl.disable_block_order turns this off");
    return WithPanels(op, panel);
  }

  Target target_;
};

}  // namespace

ir::Func OrderBlocks(const ir::Func& func, const Target& target) {
  return func.WithBody(BlockOrderer(target).MutateStmt(func->body));
}

ir::KernelLaunch OrderedByPanels(const ir::KernelLaunchNode* launch, int64_t wave) {
  auto self = ir::ffi::GetRef<ir::KernelLaunch>(launch);
  if (launch->grid.size() < 2) return self;
  Loads loads = LoadsOf(launch);
  if (IsOrdered(launch) || loads.by_row == 0 || loads.by_column == 0) return self;
  GridExtents grid = ExtentsOf(launch);
  if (grid.columns * grid.rows <= wave) return self;
  Panel panel = ChoosePanel(loads, grid, wave);
  return panel.rows < 2 ? self : WithPanels(launch, panel.rows);
}

}  // namespace tilelang::tiling
