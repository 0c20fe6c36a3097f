#include "analysis/conflicts.h"

#include <cstddef>
#include <vector>

#include "analysis/moves.h"
#include "arith/analyzer.h"
#include "ir/aliases.h"
#include "ir/visitor.h"
#include "layout/tcgen05_layout.h"
#include "target/warp.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// Returns whether both accesses have equal uniform parts, which do not change between them.
bool SameUniformPart(const MemoryAccess& a, const MemoryAccess& b, bool carried) {
  if (ReadsMemory(a.uniform)) return false;
  if (carried && (a.moves || b.moves)) return false;
  return arith::Analyzer().CanProveEqual(a.uniform, b.uniform);
}

bool OwnersConflict(const OwnerMap& a, const OwnerMap& b, bool same_store) {
  return AnyCommon({a}, {b}, [&](int32_t x, int32_t y) {
    // Threads that store the same element at the same time store the same value.
    return !(same_store && x == OwnerMap::kReplicated) && (x != y || x < 0);
  });
}

// Returns the warpgroup of a thread, or of the elected thread of a warp.
int32_t WarpgroupOf(int32_t owner) {
  bool elected = owner >= MemoryAccess::kElected;
  return (elected ? (owner - MemoryAccess::kElected) * kWarp : owner) /
         static_cast<int32_t>(kWarpgroup);
}

// The warp that touches each group of kTmemCellLanes lanes.
std::vector<int32_t> OwnersOfLanes(const OwnerMap& cells) {
  std::vector<int32_t> owners(layout::kTmemLanes / kTmemCellLanes, OwnerMap::kNobody);
  for (size_t i = 0; i < cells.owner.size(); ++i) {
    if (cells.owner[i] == OwnerMap::kNobody) continue;
    int32_t& owner = owners[static_cast<size_t>(cells.Begin(i) / layout::kTmemColumns)];
    owner =
        owner == OwnerMap::kNobody || owner == cells.owner[i] ? cells.owner[i] : OwnerMap::kMany;
  }
  return owners;
}

// Compares two accesses whose tiles have columns in common.
bool CellsConflict(const MemoryAccess& a, const MemoryAccess& b, bool carried) {
  if (!a.owners || !b.owners) return true;
  if (SameUniformPart(a, b, carried)) return OwnersConflict(*a.owners, *b.owners, false);
  // Columns are chosen at run time. Lanes are not: a warp has its quarter of them for good.
  if (a.proxy == Proxy::kAsync || b.proxy == Proxy::kAsync) return true;
  if (a.in_rows_of_warpgroup && b.in_rows_of_warpgroup) return false;
  std::vector<int32_t> of_a = OwnersOfLanes(*a.owners);
  std::vector<int32_t> of_b = OwnersOfLanes(*b.owners);
  for (size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i] == OwnerMap::kNobody || of_b[i] == OwnerMap::kNobody) continue;
    if (of_a[i] != of_b[i] || of_a[i] < 0) return true;
  }
  return false;
}

}  // namespace

bool ReadsMemory(const Expr& e) {
  bool result = false;
  WalkExprs(e, [&](const Expr& part) {
    result |= part->kind == ExprKind::kLoad || part->kind == ExprKind::kCall;
    return !result;
  });
  return result;
}

bool BoxesOverlap(const MemoryAccess& earlier, const MemoryAccess& later, bool carried) {
  const auto &a = earlier.box, &b = later.box;
  if (!a || !b || !MayOverlap(a->tensor, b->tensor) || (a->adds && b->adds)) return false;
  if (carried || !a->tensor.same_as(b->tensor)) return true;
  arith::Analyzer analyzer;
  for (size_t d = 0; d < a->corner.size(); ++d) {
    const Expr &x = a->corner[d], &y = b->corner[d];
    // Memory may have changed in between.
    if (ReadsMemory(x) || ReadsMemory(y)) {
      continue;
    }
    auto end = [&](const Expr& corner, int64_t extent) {
      return corner + Const(corner.dtype(), extent);
    };
    if (analyzer.CanProve(end(x, a->extents[d]) <= y) ||
        analyzer.CanProve(end(y, b->extents[d]) <= x)) {
      return false;
    }
  }
  return true;
}

bool MayConflict(const MemoryAccess& earlier, const MemoryAccess& later, bool carried) {
  if (!earlier.write && !later.write) return false;
  // Barriers do not wait for a store by TMA.
  if ((earlier.ordered || later.ordered) && !earlier.issuer) return false;
  if (earlier.end <= later.begin || later.end <= earlier.begin) return false;
  if (earlier.atomic && later.atomic) return false;
  if (earlier.buffer.IsTmem()) return CellsConflict(earlier, later, carried);
  if (earlier.proxy != later.proxy) return true;
  if (earlier.single_thread >= 0 && earlier.single_thread == later.single_thread) return false;
  if (earlier.proxy == Proxy::kAsync) return true;
  if (!earlier.buffer.same_as(later.buffer)) return true;
  if (earlier.buffer->attrs.count(kOwnElements) != 0) return false;
  if (carried && &earlier == &later && !later.read && later.buffer.IsGlobal()) return false;
  if (!earlier.owners || !later.owners) return true;
  bool moved = carried && !IterationsAreApart(earlier, later);
  if (!SameUniformPart(earlier, later, moved)) return true;
  bool same_store = &earlier == &later && !later.read;
  return OwnersConflict(*earlier.owners, *later.owners, same_store);
}

bool IsKnownConflict(const MemoryAccess& earlier, const MemoryAccess& later) {
  bool comparable = earlier.buffer.same_as(later.buffer) && earlier.owners && later.owners &&
                    (earlier.write || later.write) && SameUniformPart(earlier, later, false);
  return comparable && OwnersConflict(*earlier.owners, *later.owners, false);
}

bool TouchSameElements(const MemoryAccess& a, const MemoryAccess& b) {
  return a.buffer.same_as(b.buffer) && a.index.defined() && b.index.defined() &&
         arith::Analyzer().CanProveEqual(a.index, b.index);
}

bool ShareCells(const MemoryAccess& earlier, const MemoryAccess& later) {
  if (earlier.end <= later.begin || later.end <= earlier.begin) return false;
  if (!earlier.owners || !later.owners || !SameUniformPart(earlier, later, true)) return true;
  return AnyCommon({*earlier.owners}, {*later.owners}, [](int32_t, int32_t) { return true; });
}

bool WarpgroupsMayConflict(const MemoryAccess& earlier, const MemoryAccess& later, bool carried) {
  if (!MayConflict(earlier, later, carried)) return false;
  bool comparable = earlier.buffer.IsShared() && earlier.buffer.same_as(later.buffer) &&
                    !earlier.by_warpgroup && !later.by_warpgroup && earlier.owners &&
                    later.owners && SameUniformPart(earlier, later, carried);
  if (!comparable) return true;
  return AnyCommon({*earlier.owners}, {*later.owners}, [](int32_t x, int32_t y) {
    return x < 0 || y < 0 || WarpgroupOf(x) != WarpgroupOf(y);
  });
}

}  // namespace tilelang::analysis
