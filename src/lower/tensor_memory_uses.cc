#include "lower/tensor_memory_uses.h"

#include <tvm/ffi/reflection/registry.h>

#include "ir/visitor.h"
#include "op/copy_tmem.h"
#include "op/copy_tmem_cp.h"
#include "op/gemm_tcgen05.h"
#include "op/tmem.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Region;
using layout::Coord;

namespace {

// The begin of a region; 0 where it is known only when the kernel runs.
Coord BeginOf(const Region& region) {
  Coord begin;
  for (const ir::Expr& min : region->mins) begin.push_back(ir::AsInt(min).value_or(0));
  return begin;
}

Coord WithoutOnes(const Coord& extents) {
  Coord moving;
  for (int64_t extent : extents) {
    if (extent != 1) moving.push_back(extent);
  }
  return moving;
}

Array<int64_t> AsArray(const Coord& coord) { return Array<int64_t>(coord.begin(), coord.end()); }

class UseCollector : public ir::StmtVisitor {
 public:
  Array<ir::Any> found;

  using StmtVisitor::Visit;
  void Visit(const ir::KernelLaunchNode* op) override {
    layouts_ = op::LayoutMap(op->attrs["layout_map"].cast<ir::Map<Buffer, ir::Any>>());
    auto columns = op->attrs.Get("tmem_columns");
    if (columns) columns_ = (*columns).cast<ir::Map<Buffer, int64_t>>();
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CopyNode* op) override {
    const auto* plan = op::TilePlanOf(op);
    bool stores = op->dst->buffer.IsTmem();
    const Region& tile = stores ? op->dst : op->src;
    const Region& other = stores ? op->src : op->dst;
    if (plan == nullptr || !tile->buffer.IsTmem()) return;
    bool by_tensor_core = plan->instruction == op::Tcgen05Cp();
    auto use = Add(by_tensor_core ? "cp" : stores ? "store" : "load", tile, op->span);
    if (use == nullptr) return;
    use->other = other->buffer->name;
    use->first_thread = plan->threads.begin;
    use->threads = plan->threads.count;
    auto held = layouts_.GetFragment(other->buffer);
    if (by_tensor_core || !held) return;
    Coord extents = *ir::AsInts(other->extents);
    use->fragment = held->Slice(BeginOf(other), extents).Reshape(WithoutOnes(extents));
    use->plan = static_cast<const op::TmemLdStPlanNode*>(plan)->copy;
  }
  void Visit(const ir::GemmNode* op) override {
    const auto* plan = op::TilePlanOf(op);
    if (plan == nullptr || plan->instruction != op::Tcgen05Mma()) return;
    const op::UmmaTiling& tiling = static_cast<const op::UmmaPlanNode*>(plan)->tiling;
    for (const ir::GemmOperand& operand : op->operands) {
      if (!operand->IsMatrix()) continue;
      int64_t columns = operand->IsResult() ? tiling.n : tiling.k;
      AddOperand(operand->name(), operand->region, tiling.m, columns, op->span);
    }
  }

 private:
  void AddOperand(const char* kind, const Region& region, int64_t rows, int64_t columns,
                  const ir::Span& span) {
    if (!region->buffer.IsTmem()) return;
    auto use = Add(kind, region, span);
    if (use == nullptr) return;
    use->rows = rows;
    use->columns = columns;
  }

  // Returns null if the layout of the tile is not known.
  TmemUseNode* Add(const char* kind, const Region& region, const ir::Span& span) {
    auto whole = layouts_.GetTmem(region->buffer);
    auto extents = ir::AsInts(region->extents);
    if (!whole || !extents) return nullptr;
    Coord begin = BeginOf(region);
    auto use = ffi::make_object<TmemUseNode>(*whole);
    use->kind = kind;
    use->tile = region->buffer->name;
    use->dtype = ir::ToString(region->buffer->dtype);
    use->column = columns_.Get(region->buffer).value_or(0);
    use->begin = AsArray(begin);
    use->extents = AsArray(*extents);
    use->span = span;
    found.push_back(ffi::ObjectRef(use));
    return use.get();
  }

  op::LayoutMap layouts_;
  ir::Map<Buffer, int64_t> columns_;
};

}  // namespace

Array<ir::Any> TensorMemoryUses(const ir::Func& func) {
  UseCollector collector;
  collector.VisitStmt(func->body);
  return collector.found;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<TmemUseNode>()
      .def_ro("kind", &TmemUseNode::kind)
      .def_ro("tile", &TmemUseNode::tile)
      .def_ro("dtype", &TmemUseNode::dtype)
      .def_ro("column", &TmemUseNode::column)
      .def_ro("begin", &TmemUseNode::begin)
      .def_ro("extents", &TmemUseNode::extents)
      .def_ro("whole", &TmemUseNode::whole)
      .def_ro("other", &TmemUseNode::other)
      .def_ro("fragment", &TmemUseNode::fragment)
      .def_ro("plan", &TmemUseNode::plan)
      .def_ro("first_thread", &TmemUseNode::first_thread)
      .def_ro("threads", &TmemUseNode::threads)
      .def_ro("rows", &TmemUseNode::rows)
      .def_ro("columns", &TmemUseNode::columns)
      .def_ro("span", &TmemUseNode::span);
}

}  // namespace tilelang::lower
