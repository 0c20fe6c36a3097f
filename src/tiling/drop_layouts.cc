#include "tiling/drop_layouts.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <optional>

#include "ir/changed_launch.h"
#include "ir/visitor.h"
#include "layout/smem_layout.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr const char* kLayouts = "layout_map";

// Returns whether the tile gets this layout without an annotation, as an operand of 16 bytes a
// chunk and as a tile that TMA stores.
bool IsWidestSwizzle(const ir::Buffer& tile, const ir::Any& given) {
  auto layout = given.as<layout::Layout>();
  if (!tile.IsShared() || !layout) return false;
  layout::Coord extents;
  for (const ir::Expr& extent : tile->shape) {
    auto known = ir::AsInt(extent);
    if (!known) return false;
    extents.push_back(*known);
  }
  int64_t bits = tile->dtype.bits * tile->dtype.lanes;
  constexpr int64_t kUnswizzled = 16;
  int64_t widest = layout::WidestSwizzle(extents, bits);
  return widest > kUnswizzled && (*layout).SameMap(layout::SwizzledLayout(extents, bits, widest));
}

class LayoutDropper : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    auto given = op->attrs.Get(kLayouts);
    if (!given) return self;
    auto layouts = (*given).cast<ir::Map<ir::Buffer, ir::Any>>();
    bool all = std::all_of(layouts.begin(), layouts.end(), [](const auto& item) {
      return IsWidestSwizzle(item.first, item.second);
    });
    if (!all) return self;
    auto attrs = op->attrs;
    attrs.erase(kLayouts);
    ir::KernelLaunch launch = ir::WithAttrs(op, attrs);
    bool chosen = FindPlainGemm(launch.operator->(), Operands::kComputed).loop != nullptr ||
                  FindGemmChain(launch.operator->()).loop != nullptr;
    return chosen ? Stmt(launch) : self;
  }
};

}  // namespace

ir::Func DropLayouts(const ir::Func& func) {
  return func.WithBody(LayoutDropper().MutateStmt(func->body));
}

}  // namespace tilelang::tiling
