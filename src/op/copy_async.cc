#include "op/copy_async.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <cmath>

#include "ir/visitor.h"
#include "op/effect.h"
#include "op/parallel.h"

namespace tilelang::op {

namespace {

// Returns whether all bits of the number are zero.
bool IsZero(const Expr& e) {
  const auto* number = e.as<ir::FloatImmNode>();
  return number != nullptr ? number->value == 0 && !std::signbit(number->value) : ir::IsConst(e, 0);
}

// Describes a value that is an element of memory where `inside` holds (null: everywhere), and zero
// elsewhere.
struct CopiedElement {
  const ir::LoadNode* load = nullptr;  // null: the value is none such
  Expr inside;
};
CopiedElement AsCopiedElement(Expr value) {
  Expr inside;
  while (const auto* select = value.as<ir::SelectNode>()) {
    if (!IsZero(select->false_value)) return {};
    inside = inside.defined() ? inside && select->condition : select->condition;
    value = select->true_value;
  }
  return {value.as<ir::LoadNode>(), inside};
}

}  // namespace

const ir::LoadNode* CopiedLoad(const Expr& value) { return AsCopiedElement(value).load; }

bool IsCopyAsync(const ir::ParallelForNode* loop) {
  return loop->annotations.count(kCopyAsync) != 0;
}

std::optional<TileCopy> AsTileCopy(const Stmt& s) {
  const auto* loop = s.as<ir::ParallelForNode>();
  const auto* store = loop != nullptr ? loop->body.as<ir::StoreNode>() : nullptr;
  CopiedElement element = store != nullptr ? AsCopiedElement(store->value) : CopiedElement();
  const ir::LoadNode* load = element.load;
  if (load == nullptr || !store->buffer.IsShared() || !load->buffer.IsGlobal()) return std::nullopt;
  if (store->buffer->dtype.bits % 8 != 0) return std::nullopt;  // several elements in a byte
  ParallelInfo info(loop);
  for (const Access& access : info.accesses()) {
    if (access.is_write && !info.DirectAxes(access)) return std::nullopt;
  }
  Array<Expr> chosen_by = load->indices;
  if (element.inside.defined()) chosen_by.push_back(element.inside);
  return TileCopy{store->buffer, load->buffer, chosen_by};
}

Stmt CopyAsync(const Stmt& s, int64_t elements, bool ordered) {
  const auto* store = s.as<ir::StoreNode>();
  if (store == nullptr) return Stmt();
  auto [load, inside] = AsCopiedElement(store->value);
  int64_t bytes = elements * ir::Bytes(store->buffer->dtype);
  if (load == nullptr || (bytes != 4 && bytes != 8 && bytes != 16)) return Stmt();
  // Where the condition does not hold, the copy reads nothing and writes zeros.
  Expr source_bytes = I32(bytes);
  Array<Expr> indices = load->indices;
  if (inside.defined()) {
    source_bytes = ir::Select(inside, source_bytes, I32(0), store->span);
    if (std::any_of(indices.begin(), indices.end(), ir::HasLoad)) {
      for (size_t d = 0; d < indices.size(); ++d) {
        Expr zero = ir::Const(indices[d].dtype(), 0);
        indices.Set(d, ir::Select(inside, indices[d], zero, store->span));
      }
    }
  }
  ir::Map<ir::String, ir::Any> attrs;
  attrs.Set("elements", elements);
  return Effect(ordered ? "cp_async_ordered" : "cp_async",
                {ir::AddressOf(store->buffer, store->indices), ir::AddressOf(load->buffer, indices),
                 I32(bytes), source_bytes},
                store->span, attrs);
}

}  // namespace tilelang::op
