#include "tiling/drop_layouts.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "ir/changed_launch.h"
#include "ir/visitor.h"
#include "layout/smem_layout.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

constexpr const char* kLayouts = "layout_map";

// Returns whether the layout is the widest swizzle of the tile's rows, in chunks of 16 bytes.
bool IsWidestSwizzle(const ir::Buffer& tile, const ir::Any& given) {
  auto layout = given.as<layout::Layout>();
  if (!tile.IsShared() || !layout) return false;
  auto extents = ir::AsInts(tile->shape);
  if (!extents) return false;
  int64_t bits = tile->dtype.bits * tile->dtype.lanes;
  constexpr int64_t kUnswizzled = 16;
  int64_t widest = layout::WidestSwizzle(*extents, bits);
  return widest > kUnswizzled && (*layout).SameMap(layout::SwizzledLayout(*extents, bits, widest));
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
