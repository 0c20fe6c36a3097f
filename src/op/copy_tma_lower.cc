#include "arith/widen.h"
#include "ir/error.h"
#include "ir/padded.h"
#include "ir/visitor.h"
#include "layout/smem_layout.h"
#include "layout/symbolic.h"
#include "op/copy.h"
#include "op/copy_cluster.h"
#include "op/copy_tma.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::op {

namespace {

// Returns the number of an element along the last dimension of a tensor. The dimension counts bytes
// if the elements are padded.
Expr ElementOf(const Expr& place, const TmaBoxes& boxes) {
  if (boxes.padded_bits == 0) return place;
  auto number = [&](int64_t n) { return ir::Const(place.dtype(), n); };
  return ir::FloorDiv(place * number(8), number(boxes.padded_bits));
}

}  // namespace

ir::Var TensorMaps::Get(const Buffer& global, const Buffer& flat, const TmaBoxes& boxes) {
  Array<int64_t> box(boxes.box.rbegin(), boxes.box.rend());
  ir::DType type = global->dtype;
  if (boxes.padded_bits != 0) type = {kDLUInt, static_cast<uint8_t>(boxes.padded_bits), 1};
  for (size_t i = 0; i < maps_.size(); ++i) {
    bool same = buffers_[i].same_as(global) && maps_[i]->swizzle == boxes.swizzle &&
                maps_[i]->swizzle_atomicity == boxes.swizzle_atomicity && maps_[i]->dtype == type &&
                std::equal(box.begin(), box.end(), maps_[i]->box.begin(), maps_[i]->box.end());
    if (same) return maps_[i]->var;
  }
  ir::Var var(String(std::string(global->name) + "_map"), ir::dtypes::kHandle, global->span);
  auto wide = [](const Expr& e) { return ir::CastTo(ir::dtypes::kInt64, arith::Widen(e)); };
  Array<Expr> dims;
  Array<Expr> strides;
  Array<Expr> element_strides = global.Strides();
  for (size_t d = global->shape.size(); d-- > 0;) {
    if (d + 1 == global->shape.size()) {
      dims.push_back(ElementOf(wide(global->shape[d]), boxes));
      continue;
    }
    dims.push_back(wide(global->shape[d]));
    strides.push_back(wide(element_strides[d]) *
                      ir::Const(ir::dtypes::kInt64, ir::Bytes(global->dtype)));
  }
  maps_.push_back(TensorMapInfo(var, flat, dims, strides, box, {}, boxes.swizzle,
                                boxes.swizzle_atomicity, type, /*oob_nan=*/false));
  buffers_.push_back(global);
  return var;
}

Stmt TensorMaps::Prefetch(const Expr& thread, const Span& span) const {
  std::vector<Stmt> stmts;
  for (const TensorMapInfo& map : maps_) {
    stmts.push_back(DeviceEffect("copy_sm90.h", "prefetch_tensor_map", {map->var}, span));
  }
  return ir::If(ir::MakeEq(thread, I32(0)), Sequence(stmts, span), Stmt(), span);
}

namespace {

class TmaLowerer {
 public:
  TmaLowerer(const ir::CopyNode* op, const Lowering& lowering)
      : op_(op),
        global_(GlobalSide(op)),
        shared_(SharedSide(op)),
        boxes_(TmaPlanOf(op)->boxes),
        map_(lowering.tensor_maps->Get(global_->buffer, lowering.buffers->Get(global_->buffer),
                                       BoxesOfMap())),
        lowering_(lowering) {}

  // Issues one call for each box; for a gather for each box of all its rows.
  void Issue(std::vector<Stmt>* stmts) {
    int64_t count = layout::Product(boxes_.counts);
    for (int64_t i = 0; i < count; ++i) {
      stmts->push_back(IssueBox(layout::Delinearize(boxes_.counts, i)));
    }
  }

 private:
  // Returns the boxes that the tensor map describes: of a gather single rows.
  TmaBoxes BoxesOfMap() const {
    TmaBoxes boxes = boxes_;
    if (!op_->rows.empty()) boxes.box[boxes.box.size() - 2] = 1;
    return boxes;
  }

  Stmt IssueBox(const Coord& index) {
    Array<Expr> args = {map_};
    if (IsTmaLoad(op_)) args.push_back(lowering_.barrier);
    args.push_back(ir::AddressOf(lowering_.buffers->Get(shared_->buffer), {SharedOffset(index)}));
    for (size_t d = index.size(); d-- > (op_->rows.empty() ? 0 : index.size() - 1);) {
      Expr corner = ir::CastTo(ir::dtypes::kInt32, lowering_.scalar->Mutate(global_->mins[d]));
      if (d + 1 == index.size()) corner = ElementOf(corner, boxes_);
      args.push_back(lowering_.ctx->analyzer->Simplify(corner + I32(index[d] * boxes_.box[d])));
    }
    for (const Expr& row : op_->rows) {
      args.push_back(ir::CastTo(ir::dtypes::kInt32, lowering_.scalar->Mutate(row)));
    }
    std::string name = IsTmaLoad(op_) ? "tma_load" : op_->Adds() ? "tma_store_add" : "tma_store";
    if (lowering_.multicast != 0) {
      name = "tma_load_multicast";
      args.insert(args.begin() + 3, ir::Const(ir::dtypes::kUInt16, lowering_.multicast));
    }
    if (!op_->rows.empty()) name = "tma_load_gather4";
    if (CompletesAtLeader(op_, lowering_.ctx->in_pairs)) name = "tma_load_pair";
    ir::Eviction eviction = op_->options->eviction_kind();
    if (eviction != ir::Eviction::kNormal) name += "<tl::L2Policy::" + ir::ToString(eviction) + ">";
    return DeviceEffect("copy_sm90.h", name, args, op_->span, Effects());
  }

  Expr SharedOffset(const Coord& index) {
    MovingDims from = Moving(global_);
    MovingDims to = Moving(shared_);
    Array<Expr> corner;
    for (const Expr& min : shared_->mins) corner.push_back(lowering_.scalar->Mutate(min));
    for (size_t i = 0; i < to.dims.size(); ++i) {
      size_t g = from.dims[i];
      const Expr& min = corner[to.dims[i]];
      corner.Set(to.dims[i], min + ir::Const(min.dtype(), index[g] * boxes_.box[g]));
    }
    return OffsetOf(corner);
  }

  // Returns where a box begins: the hardware permutes chunks by their addresses, so that it lies as
  // it would without a swizzle.
  Expr OffsetOf(const Array<Expr>& corner) {
    const Buffer& buffer = shared_->buffer;
    arith::Analyzer* analyzer = lowering_.ctx->analyzer;
    if (boxes_.swizzle == 0) return lowering_.buffers->Offset(buffer, corner, analyzer);
    Layout plain = layout::AtomColumns(StaticShape(buffer), buffer->dtype.bits, boxes_.swizzle);
    std::vector<Expr> coord;
    for (const Expr& e : corner) coord.push_back(analyzer->Simplify(e));
    return analyzer->Simplify(layout::ForwardExpr(plain, coord));
  }

  // Returns the attributes that tell the synchronisation what the copy accesses in shared memory.
  Map<String, Any> Effects() const {
    Map<String, Any> attrs;
    attrs.Set(IsTmaLoad(op_) ? "writes" : "reads",
              Array<Buffer>{lowering_.buffers->Get(shared_->buffer)});
    attrs.Set("extents", Array<int64_t>{layout::Product(boxes_.box)});
    attrs.Set("async", true);
    if (boxes_.padded_bits != 0) {
      attrs.Set(ir::kPackedBytes, layout::Product(boxes_.box) * boxes_.padded_bits / 8);
    }
    if (lowering_.multicast != 0 && op_->mbar.defined()) {
      attrs.Set(kRemoteWrites, Array<Buffer>{lowering_.buffers->Get(shared_->buffer)});
    }
    if (IsTmaLoad(op_)) return attrs;
    if (op_->Adds()) attrs.Set(ir::kAdds, true);
    attrs.Set(kStoredTensor, lowering_.buffers->Get(global_->buffer));
    attrs.Set(kStoredBox, Array<int64_t>(boxes_.box.rbegin(), boxes_.box.rend()));
    if (op_->options->waits_for_writes) attrs.Set(kWaitsForWrites, true);
    return attrs;
  }

  const ir::CopyNode* op_;
  Region global_;
  Region shared_;
  const TmaBoxes& boxes_;
  ir::Var map_;
  const Lowering& lowering_;
};

}  // namespace

void IssueTma(const ir::CopyNode* op, Lowering* lowering, std::vector<Stmt>* stmts) {
  TmaLowerer(op, *lowering).Issue(stmts);
}

}  // namespace tilelang::op
