#include "ir/error.h"
#include "ir/visitor.h"
#include "layout/symbolic.h"
#include "op/copy.h"
#include "op/copy_tma.h"
#include "op/effect.h"

namespace tilelang::op {

ir::Var TensorMaps::Get(const Buffer& global, const Buffer& flat, const TmaBoxes& boxes) {
  Array<int64_t> box(boxes.box.rbegin(), boxes.box.rend());
  for (size_t i = 0; i < maps_.size(); ++i) {
    bool same = buffers_[i].same_as(global) && maps_[i]->swizzle == boxes.swizzle &&
                maps_[i]->swizzle_atomicity == boxes.swizzle_atomicity &&
                std::equal(box.begin(), box.end(), maps_[i]->box.begin(), maps_[i]->box.end());
    if (same) return maps_[i]->var;
  }
  ir::Var var(String(std::string(global->name) + "_map"), ir::dtypes::kHandle, global->span);
  auto wide = [](const Expr& e) { return ir::CastTo(ir::dtypes::kInt64, e); };
  Array<Expr> dims;
  Array<Expr> strides;
  Array<Expr> element_strides = global.Strides();
  for (size_t d = global->shape.size(); d-- > 0;) {
    dims.push_back(wide(global->shape[d]));
    if (d + 1 == global->shape.size()) continue;
    strides.push_back(wide(element_strides[d]) *
                      ir::Const(ir::dtypes::kInt64, ir::Bytes(global->dtype)));
  }
  maps_.push_back(TensorMapInfo(var, flat, dims, strides, box, {}, boxes.swizzle,
                                boxes.swizzle_atomicity, global->dtype, /*oob_nan=*/false));
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

// The copy's regions do not depend on memory, so it can be issued with others.
bool HasFixedRegions(const ir::CopyNode* op) {
  bool fixed = true;
  for (const Region& region : {op->src, op->dst}) {
    for (const Expr& min : region->mins) {
      ir::WalkExprs(min, [&](const Expr& e) {
        const auto* load = e.as<ir::LoadNode>();
        fixed = fixed && (load == nullptr || load->buffer->scope == "local.var");
        return fixed;
      });
    }
  }
  return fixed;
}

const ir::CopyNode* AsTmaCopy(const Stmt& s) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && IsTmaCopy(copy) ? copy : nullptr;
}

class TmaLowerer {
 public:
  TmaLowerer(const ir::CopyNode* op, TensorMaps* maps, PhysicalBuffers* buffers,
             AccessLowerer* scalar, Context* ctx)
      : op_(op),
        global_(GlobalSide(op)),
        shared_(SharedSide(op)),
        boxes_(CutIntoBoxes(op, ctx)),
        map_(maps->Get(global_->buffer, buffers->Get(global_->buffer), boxes_)),
        buffers_(buffers),
        scalar_(scalar),
        ctx_(ctx) {}

  int64_t Bytes() const {
    return layout::Product(boxes_.box) * layout::Product(boxes_.counts) *
           ir::Bytes(global_->buffer->dtype);
  }

  // One call for each box; `barrier` is where a load completes.
  void Issue(const Expr& barrier, std::vector<Stmt>* stmts) {
    int64_t count = layout::Product(boxes_.counts);
    for (int64_t i = 0; i < count; ++i) {
      stmts->push_back(IssueBox(barrier, layout::Delinearize(boxes_.counts, i)));
    }
  }

 private:
  Stmt IssueBox(const Expr& barrier, const Coord& index) {
    Array<Expr> args = {map_};
    if (IsTmaLoad(op_)) args.push_back(barrier);
    args.push_back(ir::AddressOf(buffers_->Get(shared_->buffer), {SharedOffset(index)}));
    for (size_t d = index.size(); d-- > 0;) {
      Expr corner = ir::CastTo(ir::dtypes::kInt32, scalar_->Mutate(global_->mins[d]));
      args.push_back(ctx_->analyzer->Simplify(corner + I32(index[d] * boxes_.box[d])));
    }
    std::string name = IsTmaLoad(op_) ? "tma_load" : "tma_store";
    auto policy = op_->annotations.find("eviction_policy");
    if (policy != op_->annotations.end() && (*policy).second.cast<String>() != "evict_normal") {
      name += "<tl::L2Policy::" + std::string((*policy).second.cast<String>()) + ">";
    }
    return DeviceEffect("copy_sm90.h", name, args, op_->span, Effects());
  }

  Expr SharedOffset(const Coord& index) {
    MovingDims from = Moving(global_);
    MovingDims to = Moving(shared_);
    Array<Expr> corner;
    for (const Expr& min : shared_->mins) corner.push_back(scalar_->Mutate(min));
    for (size_t i = 0; i < to.dims.size(); ++i) {
      size_t g = from.dims[i];
      const Expr& min = corner[to.dims[i]];
      corner.Set(to.dims[i], min + ir::Const(min.dtype(), index[g] * boxes_.box[g]));
    }
    return buffers_->Offset(shared_->buffer, corner, ctx_->analyzer);
  }

  // For the synchronisation of shared memory.
  Map<String, Any> Effects() const {
    Map<String, Any> attrs;
    attrs.Set(IsTmaLoad(op_) ? "writes" : "reads", Array<Buffer>{buffers_->Get(shared_->buffer)});
    attrs.Set("async", true);
    return attrs;
  }

  const ir::CopyNode* op_;
  Region global_;
  Region shared_;
  TmaBoxes boxes_;
  ir::Var map_;
  PhysicalBuffers* buffers_;
  AccessLowerer* scalar_;
  Context* ctx_;
};

}  // namespace

std::vector<const ir::CopyNode*> TmaGroup(const Array<Stmt>& stmts, size_t first) {
  std::vector<const ir::CopyNode*> group;
  for (size_t i = first; i < stmts.size(); ++i) {
    const ir::CopyNode* copy = AsTmaCopy(stmts[i]);
    if (copy == nullptr) break;
    bool joins = group.empty() || HasFixedRegions(copy);
    for (const ir::CopyNode* other : group) {
      joins = joins && IsTmaLoad(copy) == IsTmaLoad(other) &&
              !copy->dst->buffer.same_as(other->dst->buffer);
    }
    if (!joins) break;
    group.push_back(copy);
  }
  return group;
}

Stmt LowerTmaGroup(const std::vector<const ir::CopyNode*>& group, const Completion& completion,
                   TensorMaps* maps, PhysicalBuffers* buffers, AccessLowerer* scalar,
                   Context* ctx) {
  const Span& span = group.front()->span;
  bool loads = IsTmaLoad(group.front());
  std::vector<Stmt> issue;
  int64_t bytes = 0;
  bool written = false;
  Expr barrier = loads ? AddressOf(completion) : Expr();
  for (const ir::CopyNode* op : group) {
    TmaLowerer lowerer(op, maps, buffers, scalar, ctx);
    lowerer.Issue(barrier, &issue);
    bytes += lowerer.Bytes();
    written |= op->annotations.count(kTmaWrittenAnnotation) != 0;
  }
  if (!loads) {
    issue.push_back(DeviceEffect("copy_sm90.h", "tma_store_commit", {}, span));
    const char* wait = written ? "tma_store_wait<0>" : "tma_store_wait_read<0>";
    issue.push_back(DeviceEffect("copy_sm90.h", wait, {}, span));
    return ByOneThread(Sequence(issue, span), *ctx, span);
  }
  issue.insert(issue.begin(), Effect("mbarrier_arrive_expect_tx", {barrier, U32(bytes)}, span));
  std::vector<Stmt> stmts = {ByOneThread(Sequence(issue, span), *ctx, span)};
  Wait(completion, span, &stmts);
  return Sequence(stmts, span);
}

}  // namespace tilelang::op
