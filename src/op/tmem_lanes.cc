#include "op/tmem_lanes.h"

#include <algorithm>

#include "ir/same.h"
#include "ir/visitor.h"
#include "op/column_owner.h"
#include "op/cta_pair.h"

namespace tilelang::op {

namespace {

constexpr int64_t kHalfRows = 64;

int64_t RowsOf(const Buffer& tile) {
  Coord shape = StaticShape(tile);
  return shape.size() < 2 ? 1 : shape[shape.size() - 2];
}

// Returns whether LayoutForRole has a layout for the number of rows.
bool HasLegalRows(const Buffer& tile) {
  return RowsOf(tile) == kHalfRows || RowsOf(tile) % layout::kTmemLanes == 0;
}

bool HasHalfRows(const Buffer& tile) {
  return RowsOf(tile) == kHalfRows && tile->dtype.bits == layout::kTmemColumnBits;
}

// Lists the tiles of a launch in tensor memory, and the tiles whose lanes are already decided.
struct LaunchTiles {
  LayoutMap annotated;
  std::vector<Buffer> all;
  std::vector<Buffer> fixed;

  explicit LaunchTiles(const ir::KernelLaunchNode* launch)
      : annotated(LayoutMap::Annotated(launch)) {
    ir::WalkStmts(launch->body, [&](const Stmt& s) {
      if (const auto* alloc = s.as<ir::AllocNode>()) Add(alloc->buffer);
      if (const auto* gemm = s.as<ir::GemmNode>()) FixInputs(gemm);
      return true;
    });
  }

  // A tile that has no layout is refused where it is used.
  int64_t ColumnsOf(const Buffer& tile) const {
    auto given = annotated.GetTmem(tile);
    if (!given && !HasLegalRows(tile)) return 0;
    return (given ? *given : LayoutForRole(tile, TmemRole::kAccumulator))->Columns();
  }

 private:
  void Add(const Buffer& tile) {
    if (!tile.IsTmem()) return;
    auto below = OwnerOfColumns(tile);
    if (below) ir::AddOnce(*below, &fixed);
    if (below || annotated.Has(tile) || !HasHalfRows(tile)) ir::AddOnce(tile, &fixed);
    if (!below) all.push_back(tile);
  }

  // Fixes the lanes of inputs. A and metadata in tensor memory lie in the lanes of C, and scale
  // factors take all lanes.
  void FixInputs(const ir::GemmNode* op) {
    bool special = op->IsScaled() || op->IsSparse() || IsInPairs(op);
    for (const ir::GemmOperand& operand : op->operands) {
      bool result = operand->IsResult();
      if (special || !result) ir::AddOnce(operand->buffer(), &fixed);
      if (!result && operand->buffer().IsTmem()) ir::AddOnce(op->result()->buffer, &fixed);
    }
  }
};

}  // namespace

TmemHalf HalfOf(const TmemLayout& layout) {
  std::vector<int64_t> lanes = layout->lane->Tabulate();
  auto all_in = [&](int64_t half) {
    return std::all_of(lanes.begin(), lanes.end(),
                       [&](int64_t lane) { return lane / kUpperLane % 2 == half; });
  };
  if (all_in(0)) return TmemHalf::kLower;
  return all_in(1) ? TmemHalf::kUpper : TmemHalf::kBoth;
}

std::vector<std::pair<Buffer, TmemLayout>> TilesInUpperLanes(const ir::KernelLaunchNode* launch,
                                                             int64_t columns) {
  LaunchTiles tiles(launch);
  std::vector<Buffer> movable;
  int64_t total = 0;
  for (const Buffer& tile : tiles.all) {
    total += tiles.ColumnsOf(tile);
    if (!ir::HasSame(tiles.fixed, tile)) movable.push_back(tile);
  }
  std::vector<std::pair<Buffer, TmemLayout>> upper;
  if (total <= columns) return upper;
  // The widest tile stays. Each other tile goes to the half that has fewer columns.
  std::stable_sort(movable.begin(), movable.end(), [&](const Buffer& a, const Buffer& b) {
    return tiles.ColumnsOf(a) > tiles.ColumnsOf(b);
  });
  int64_t below = 0;
  int64_t above = 0;
  for (const Buffer& tile : movable) {
    bool stays = below <= above;
    (stays ? below : above) += tiles.ColumnsOf(tile);
    layout::MmaForm form;
    form.lane_alignment = kUpperLane;
    if (!stays) upper.emplace_back(tile, LayoutForRole(tile, TmemRole::kAccumulator, form));
  }
  return upper;
}

}  // namespace tilelang::op
