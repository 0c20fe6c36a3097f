#include "op/column_owner.h"

#include "ir/tmem_views.h"
#include "layout/tmem_view.h"
#include "op/tmem.h"

namespace tilelang::op {

std::optional<Buffer> OwnerOfColumns(const Buffer& tile) {
  auto owner = tile->attrs.Get(kColumnsOf);
  if (!owner) owner = tile->attrs.Get(ir::kViewOf);
  if (!owner) return std::nullopt;
  return (*owner).cast<Buffer>();
}

bool SetViewLayout(const Buffer& buffer, const Span& user, Context* ctx) {
  auto attr = buffer->attrs.Get(ir::kViewOf);
  if (!attr) return false;
  if (ctx->layouts->Has(buffer)) return true;
  Buffer viewed = (*attr).cast<Buffer>();
  SetDefaultRole(viewed, user, ctx);
  TmemLayout layout = *ctx->layouts->GetTmem(viewed);
  // The layout belongs to no instruction, so each one is compared with it.
  ctx->layouts->Set(buffer, layout::Reinterpret(layout, buffer->dtype.bits), Span());
  return true;
}

}  // namespace tilelang::op
