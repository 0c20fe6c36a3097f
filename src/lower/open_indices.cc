#include "lower/open_indices.h"

#include <tvm/ffi/cast.h>

#include "analysis/scoped_visitor.h"
#include "ir/same.h"
#include "ir/visitor.h"

namespace tilelang::lower {

using ir::Expr;

namespace {

class OpenIndexFinder : public analysis::ScopedVisitor {
 public:
  explicit OpenIndexFinder(const ir::Array<ir::Any>& params) { analyzer_.BindParams(params); }
  std::vector<ir::Buffer> found;

  using ScopedVisitor::Visit;
  void Visit(const ir::LoadNode* op) override {
    ScopedVisitor::Visit(op);
    Look(op->buffer, op->indices, {});
  }
  void Visit(const ir::StoreNode* op) override {
    ScopedVisitor::Visit(op);
    Look(op->buffer, op->indices, {});
  }

 protected:
  void VisitRegion(const ir::Region& region) override {
    ScopedVisitor::VisitRegion(region);
    Look(region->buffer, region->mins, region->extents);
  }

 private:
  // `extents`: elements from each index on; empty for one.
  void Look(const ir::Buffer& buffer, const ir::Array<Expr>& indices,
            const ir::Array<Expr>& extents) {
    if (!buffer.IsShared() || ir::HasSame(found, buffer)) return;
    for (size_t d = 0; d < indices.size(); ++d) {
      Expr end = extents.empty() ? indices[d] + 1 : indices[d] + extents[d];
      if (IsInside(indices[d], end, buffer->shape[d])) continue;
      found.push_back(buffer);
      return;
    }
  }

  bool IsInside(const Expr& first, const Expr& end, const Expr& size) {
    auto most = ir::AsInt(size);
    if (most && analyzer_.ConstBounds(first).lo >= 0 && analyzer_.ConstBounds(end).hi <= *most) {
      return true;
    }
    return analyzer_.CanProveNonNegative(first) && analyzer_.CanProveLess(end, size + 1);
  }
};

}  // namespace

std::vector<ir::Buffer> TilesWithOpenIndices(const ir::Func& func,
                                             const ir::KernelLaunchNode* launch) {
  OpenIndexFinder finder(func->params);
  finder.VisitStmt(ir::ffi::GetRef<ir::Stmt>(launch));
  return finder.found;
}

}  // namespace tilelang::lower
