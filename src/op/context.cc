#include "op/context.h"

#include "ir/error.h"
#include "ir/memory_name.h"
#include "ir/printer.h"

namespace tilelang::op {

LayoutMap LayoutMap::Annotated(const ir::KernelLaunchNode* launch) {
  auto given = launch->attrs.Get("layout_map");
  return given ? LayoutMap((*given).cast<Map<Buffer, Any>>()) : LayoutMap();
}

std::optional<Fragment> LayoutMap::GetFragment(const Buffer& buffer) const {
  auto it = layouts_.find(buffer);
  if (it == layouts_.end()) return std::nullopt;
  return (*it).second.cast<Fragment>();
}

std::optional<Layout> LayoutMap::GetLayout(const Buffer& buffer) const {
  auto it = layouts_.find(buffer);
  if (it == layouts_.end()) return std::nullopt;
  return (*it).second.cast<Layout>();
}

std::optional<TmemLayout> LayoutMap::GetTmem(const Buffer& buffer) const {
  auto it = layouts_.find(buffer);
  if (it == layouts_.end()) return std::nullopt;
  return (*it).second.cast<TmemLayout>();
}

void LayoutMap::Set(const Buffer& buffer, Any layout, const Span& user) {
  layouts_.Set(buffer, std::move(layout));
  users_.Set(buffer, user);
  versions_.Set(buffer, ++version_);
}

int64_t LayoutMap::VersionOf(const Buffer& buffer) const {
  auto it = versions_.find(buffer);
  return it == versions_.end() ? 0 : (*it).second;
}

Span LayoutMap::UserOf(const Buffer& buffer) const {
  auto it = users_.find(buffer);
  return it == users_.end() ? Span() : (*it).second;
}

Coord StaticShape(const Buffer& buffer) {
  auto shape = ir::AsInts(buffer->shape);
  if (shape) return *shape;
  TL_USER_ERROR(kShape, buffer->span,
                "buffer " << std::string(buffer->name) << " in " << ir::MemoryName(buffer)
                          << " has a shape known only at run time; registers, shared and tensor "
                             "memory need constant shapes");
}

Coord StaticExtents(const Array<Expr>& extents, const char* what, const Span& span) {
  auto values = ir::AsInts(extents);
  if (values) return *values;
  std::string text;
  for (const Expr& e : extents) text += (text.empty() ? "" : ", ") + ir::Print(e);
  TL_USER_ERROR(kShape, span,
                what << " (" << text
                     << ") must be constants: the compiler spreads them over "
                        "threads; use a serial loop around a constant tile for a size known only "
                        "at run time");
}

}  // namespace tilelang::op
