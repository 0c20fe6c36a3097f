#include "op/copy_async.h"

#include <tvm/ffi/cast.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "op/effect.h"
#include "op/parallel.h"

namespace tilelang::op {

namespace {

constexpr const char* kHeader = "copy_sm80.h";
constexpr std::string_view kWait = "tl::cp_async_wait<";

std::string_view NameOf(const ir::CallNode* call) { return {call->name.data(), call->name.size()}; }

// All bits of it.
bool IsZero(const Expr& e) {
  const auto* number = e.as<ir::FloatImmNode>();
  return number != nullptr ? number->value == 0 && !std::signbit(number->value) : ir::IsConst(e, 0);
}

}  // namespace

bool IsCopyAsync(const ir::ParallelForNode* loop) {
  return loop->annotations.count(kCopyAsync) != 0;
}

std::optional<TileCopy> AsTileCopy(const Stmt& s) {
  const auto* loop = s.as<ir::ParallelForNode>();
  const auto* store = loop != nullptr ? loop->body.as<ir::StoreNode>() : nullptr;
  const auto* load = store != nullptr ? store->value.as<ir::LoadNode>() : nullptr;
  if (load == nullptr || !store->buffer.IsShared() || !load->buffer.IsGlobal()) return std::nullopt;
  if (store->buffer->dtype.bits % 8 != 0) return std::nullopt;  // several elements in a byte
  ParallelInfo info(loop);
  for (const Access& access : info.accesses()) {
    if (access.is_write && !info.DirectAxes(access)) return std::nullopt;
  }
  return TileCopy{store->buffer, load->buffer};
}

Stmt CopyAsync(const Stmt& s, int64_t elements, bool ordered) {
  const auto* store = s.as<ir::StoreNode>();
  if (store == nullptr) return Stmt();
  Expr value = store->value;
  Expr inside;
  if (const auto* select = value.as<ir::SelectNode>()) {
    if (!IsZero(select->false_value)) return Stmt();
    inside = select->condition;
    value = select->true_value;
  }
  const auto* load = value.as<ir::LoadNode>();
  int64_t bytes = elements * ir::Bytes(store->buffer->dtype);
  if (load == nullptr || (bytes != 4 && bytes != 8 && bytes != 16)) return Stmt();
  // What lies outside of the tensor is not read, and zero.
  Expr source_bytes = I32(bytes);
  if (inside.defined()) source_bytes = ir::Select(inside, source_bytes, I32(0), store->span);
  ir::Map<ir::String, ir::Any> attrs;
  attrs.Set("elements", elements);
  return Effect(ordered ? "cp_async_ordered" : "cp_async",
                {ir::AddressOf(store->buffer, store->indices),
                 ir::AddressOf(load->buffer, load->indices), I32(bytes), source_bytes},
                store->span, attrs);
}

Stmt CommitCopies(const Span& span) { return DeviceEffect(kHeader, "cp_async_commit", {}, span); }

Stmt WaitForCopies(int64_t left, const Span& span) {
  return DeviceEffect(kHeader, "cp_async_wait<" + std::to_string(left) + ">", {}, span);
}

bool IsCommitOfCopies(const ir::CallNode* call) { return NameOf(call) == "tl::cp_async_commit"; }

std::optional<int64_t> CopiesLeftBy(const ir::CallNode* call) {
  std::string_view name = NameOf(call);
  if (!name.starts_with(kWait)) return std::nullopt;
  return std::atoll(std::string(name.substr(kWait.size())).c_str());
}

}  // namespace tilelang::op
