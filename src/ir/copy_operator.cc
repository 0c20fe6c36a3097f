#include "ir/copy_operator.h"

#include <tvm/ffi/extra/structural_equal.h>
#include <tvm/ffi/reflection/accessor.h>

#include <algorithm>
#include <utility>

#include "ir/make_node.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

constexpr const char* kCallNames[] = {"copy", "atomic_add", "tma_copy", "tma_gather4",
                                      "tcgen05_cp_warpx4"};
constexpr const char* kEvictionNames[] = {"evict_normal", "evict_first", "evict_last"};

Any ValueOf(const std::string& field, const Any& value) {
  if (field == "call") return String(kCallNames[value.cast<int64_t>()]);
  if (field == "eviction") return String(kEvictionNames[value.cast<int64_t>()]);
  return value;
}

}  // namespace

std::string ToString(Eviction eviction) { return kEvictionNames[static_cast<size_t>(eviction)]; }

std::vector<std::pair<std::string, Any>> CopyOptionsNode::Given() const {
  static const CopyOptions defaults;
  std::vector<std::pair<std::string, Any>> given;
  const auto* info = TVMFFIGetTypeInfo(RuntimeTypeIndex());
  ffi::reflection::ForEachFieldInfo(info, [&](const TVMFFIFieldInfo* field) {
    ffi::reflection::FieldGetter getter(field);
    Any value = getter(this);
    if (ffi::AnyEqual()(value, getter(defaults.get()))) return;
    std::string name(field->name.data, field->name.size);
    given.emplace_back(name, ValueOf(name, value));
  });
  std::sort(given.begin(), given.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return given;
}

bool CopyOptionsNode::AreDefault() const { return this == CopyOptions().get() || Given().empty(); }

Map<String, Any> CopyOptionsNode::OfLoop() const {
  Map<String, Any> annotations;
  if (coalesced_width != 0) annotations.Set("coalesced_width", coalesced_width);
  if (loop_layout.defined()) annotations.Set("loop_layout", loop_layout);
  return annotations;
}

CopyOptions::CopyOptions() : ffi::ObjectRef(ffi::UnsafeInit{}) {
  static const ffi::ObjectPtr<CopyOptionsNode> shared = ffi::make_object<CopyOptionsNode>();
  data_ = shared;
}

CopyOptions CopyOptions::But(const std::function<void(CopyOptionsNode* options)>& change) const {
  auto node = ffi::make_object<CopyOptionsNode>(*get());
  change(node.get());
  CopyOptions changed;
  changed.data_ = std::move(node);
  return changed;
}

bool CopyNode::IsPlain() const {
  return options->AreDefault() && !mbar.defined() && !block.defined() && !safe_value.defined() &&
         rows.empty();
}

Copy::Copy(Region src, Region dst, CopyOptions options, Span span, Expr mbar, Expr block) {
  auto node = MakeNode<CopyNode>(std::move(span));
  node->src = std::move(src);
  node->dst = std::move(dst);
  node->options = std::move(options);
  node->mbar = std::move(mbar);
  node->block = std::move(block);
  data_ = std::move(node);
}

Copy::Copy(Region src, Region dst, Span span)
    : Copy(std::move(src), std::move(dst), CopyOptions(), std::move(span), Expr(), Expr()) {}

Copy::Copy(const CopyNode* op, const std::function<void(CopyNode* node)>& change) {
  auto node = ffi::make_object<CopyNode>(*op);
  node->plan = ffi::ObjectRef();
  change(node.get());
  data_ = std::move(node);
}

Copy::Copy(const CopyNode* op, Region src, Region dst)
    : Copy(op, [&](CopyNode* node) {
        node->src = std::move(src);
        node->dst = std::move(dst);
      }) {}

Copy Copy::Saying(const CopyNode* op, const std::function<void(CopyOptionsNode* options)>& change) {
  return Copy(op, [&](CopyNode* node) { node->options = op->options.But(change); });
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  refl::ObjectDef<CopyOptionsNode>()
      .def_ro("call", &CopyOptionsNode::call)
      .def_ro("disable_tma", &CopyOptionsNode::disable_tma)
      .def_ro("prefer_tma", &CopyOptionsNode::prefer_tma)
      .def_ro("eviction", &CopyOptionsNode::eviction)
      .def_ro("cluster_mask", &CopyOptionsNode::cluster_mask)
      .def_ro("in_pairs", &CopyOptionsNode::in_pairs)
      .def_ro("coalesced_width", &CopyOptionsNode::coalesced_width)
      .def_ro("loop_layout", &CopyOptionsNode::loop_layout)
      .def_ro("existing_rows", &CopyOptionsNode::existing_rows)
      .def_ro("waits_for_writes", &CopyOptionsNode::waits_for_writes)
      .def_ro("completes_at_leader", &CopyOptionsNode::completes_at_leader)
      .def_ro("arrives", &CopyOptionsNode::arrives)
      .def_ro("by_each_warp", &CopyOptionsNode::by_each_warp)
      .def_ro("rows_of_warpgroups", &CopyOptionsNode::rows_of_warpgroups)
      .def_ro("into_scratch", &CopyOptionsNode::into_scratch)
      .def_ro("part_of", &CopyOptionsNode::part_of);
  refl::ObjectDef<CopyNode>()
      .def_ro("src", &CopyNode::src)
      .def_ro("dst", &CopyNode::dst)
      .def_ro("options", &CopyNode::options)
      .def_ro("mbar", &CopyNode::mbar)
      .def_ro("block", &CopyNode::block)
      .def_ro("safe_value", &CopyNode::safe_value)
      .def_ro("rows", &CopyNode::rows);
  registry::Functions()
      .Add("tl.ir.CopyOptions",
           [](int64_t call, bool disable_tma, bool prefer_tma, int64_t eviction,
              int64_t cluster_mask, bool in_pairs, int64_t coalesced_width,
              ffi::ObjectRef loop_layout) {
             return CopyOptions().But([&](CopyOptionsNode* options) {
               options->call = call;
               options->disable_tma = disable_tma;
               options->prefer_tma = prefer_tma;
               options->eviction = eviction;
               options->cluster_mask = cluster_mask;
               options->in_pairs = in_pairs;
               options->coalesced_width = coalesced_width;
               options->loop_layout = std::move(loop_layout);
             });
           })
      .Add("tl.ir.Copy", [](Region src, Region dst, CopyOptions options, Span s, Expr mbar,
                            Expr block, Array<Expr> rows) {
        Copy copy(src, dst, options, s, mbar, block);
        return Copy(copy.get(), [&](CopyNode* node) { node->rows = std::move(rows); });
      });
}

}  // namespace tilelang::ir
