#include "op/access.h"

#include <limits>

#include "arith/widen.h"
#include "ir/error.h"
#include "layout/symbolic.h"
#include "op/relayout.h"
#include "op/vectorize.h"

namespace tilelang::op {

namespace {

// Returns whether offsets need 64 bits: the size of the global tensor is not known to fit 32 bits.
bool NeedsInt64(const Buffer& buffer, arith::Analyzer* analyzer) {
  Expr last = ir::Const(ir::dtypes::kInt64, 0);
  Array<Expr> strides = buffer.Strides();
  for (size_t d = 0; d < strides.size(); ++d) {
    last = last + ir::CastTo(ir::dtypes::kInt64, buffer->shape[d]) *
                      ir::CastTo(ir::dtypes::kInt64, strides[d]);
  }
  return analyzer->ConstBounds(last).hi > std::numeric_limits<int32_t>::max();
}

Expr StridedOffset(const Buffer& buffer, const Array<Expr>& indices, arith::Analyzer* analyzer) {
  Array<Expr> strides = buffer.Strides();
  ir::DType type = NeedsInt64(buffer, analyzer) ? ir::dtypes::kInt64 : ir::dtypes::kInt32;
  Expr offset = ir::Const(type, 0);
  for (size_t d = 0; d < indices.size(); ++d) {
    Expr stride = type == ir::dtypes::kInt64 ? arith::Widen(strides[d]) : strides[d];
    offset = offset + ir::CastTo(type, indices[d]) * ir::CastTo(type, stride);
  }
  return offset;
}

}  // namespace

Buffer PhysicalBuffers::Get(const Buffer& buffer) {
  auto it = twins_.find(buffer);
  if (it != twins_.end()) return (*it).second;
  Buffer twin = Make(buffer);
  twins_.Set(buffer, twin);
  return twin;
}

Buffer PhysicalBuffers::Make(const Buffer& buffer) {
  if (buffer.IsTmem() || buffer.IsBarrier() || buffer->scope == "local.var") return buffer;
  Map<String, Any> attrs = buffer->attrs;
  auto make = [&](Expr size, String scope) {
    return Buffer(buffer->name, buffer->dtype, {size}, {}, scope, attrs, buffer->span);
  };
  if (buffer.IsFragment()) {
    auto layout = layouts_->GetFragment(buffer);
    if (!layout) {
      TL_USER_ERROR(kLayout, buffer->span,
                    "fragment " << std::string(buffer->name)
                                << " has no layout: no tile operation and no T.Parallel loop "
                                   "accesses it, single elements only; memory of one thread is "
                                   "T.alloc_local");
    }
    int64_t regs = (*layout)->RegsPerThread();
    return make(ir::Const(ir::dtypes::kInt32, regs), "local");
  }
  if (buffer.IsShared()) {
    Coord shape = StaticShape(buffer);
    auto layout = layouts_->GetLayout(buffer);
    int64_t size = layout ? (*layout)->Cosize() : layout::Product(shape);
    bool swizzled = layout && !(*layout)->IsLinear();
    int64_t align = swizzled ? 1024 : 128;
    if (attrs.count("align") != 0) align = std::max(align, attrs["align"].cast<int64_t>());
    attrs.Set("align", align);
    return make(ir::Const(ir::dtypes::kInt32, size), "shared.dyn");
  }
  if (buffer.IsGlobal()) return FlatGlobal(buffer);
  return make(ir::Const(ir::dtypes::kInt32, layout::Product(StaticShape(buffer))), buffer->scope);
}

Buffer PhysicalBuffers::FlatGlobal(const Buffer& buffer) {
  Expr size = ir::Const(ir::dtypes::kInt64, 1);
  for (const Expr& extent : buffer->shape) size = size * ir::CastTo(ir::dtypes::kInt64, extent);
  Map<String, Any> attrs = buffer->attrs;
  attrs.Set("logical", buffer);
  return Buffer(buffer->name, buffer->dtype, {size}, {}, "global", attrs, buffer->span);
}

Expr PhysicalBuffers::Offset(const Buffer& buffer, const Array<Expr>& indices,
                             arith::Analyzer* analyzer) {
  if (buffer.IsShared()) {
    if (auto layout = layouts_->GetLayout(buffer)) {
      std::vector<Expr> coord;
      for (const Expr& e : indices) coord.push_back(analyzer->Simplify(e));
      return analyzer->Simplify(layout::ForwardExpr(*layout, coord));
    }
  }
  return analyzer->Simplify(StridedOffset(buffer, indices, analyzer));
}

Expr AccessLowerer::Index(const ffi::Object* node, const Buffer& buffer,
                          const Array<Expr>& original, const Span& span) {
  if (buffer.IsTmem()) {
    TL_USER_ERROR(kSemantics, span,
                  "tensor memory " << std::string(buffer->name)
                                   << " has no element access; copy it to a fragment first: "
                                      "T.copy("
                                   << std::string(buffer->name) << ", fragment)");
  }
  Array<Expr> indices = MutateExprs(original);
  if (buffer.IsFragment()) return FragmentIndex(node, buffer, indices, span);
  return MemoryIndex(buffer, original, indices);
}

Expr AccessLowerer::MemoryIndex(const Buffer& buffer, const Array<Expr>& original,
                                const Array<Expr>& indices) {
  return buffers_->Offset(buffer, indices, ctx_->analyzer);
}

Expr AccessLowerer::Rewrite(const ir::LoadNode* op) {
  Expr index = Index(op, op->buffer, op->indices, op->span);
  return ir::Load(buffers_->Get(op->buffer), {index}, op->span);
}

Stmt AccessLowerer::Rewrite(const ir::StoreNode* op) {
  Expr index = Index(op, op->buffer, op->indices, op->span);
  return ir::Store(buffers_->Get(op->buffer), {index}, Mutate(op->value), op->span);
}

Stmt AccessLowerer::Rewrite(const ir::ForNode* op) {
  Stmt lowered = StmtMutator::Rewrite(op);
  if (op->Kind() != ir::ForKind::kVectorized) return lowered;
  return LowerVectorized(op, lowered.as<ir::ForNode>()->body, buffers_, ctx_);
}

Stmt AccessLowerer::Rewrite(const ir::AllocNode* op) {
  return ir::Alloc(buffers_->Get(op->buffer), op->span);
}

Expr AccessLowerer::FragmentIndex(const ffi::Object* node, const Buffer& buffer,
                                  const Array<Expr>& indices, const Span& span) {
  Fragment f = *ctx_->layouts->GetFragment(buffer);
  if (IsHeldByAll(f, ctx_->threads)) {
    return ctx_->analyzer->Simplify(
        layout::RegExpr(f, std::vector<Expr>(indices.begin(), indices.end())));
  }
  TL_USER_ERROR(kSemantics, span,
                "an element of fragment "
                    << std::string(buffer->name)
                    << " is written outside of T.Parallel, or read in the condition of a `while`, "
                       "but each thread holds only some elements. Use it inside of a T.Parallel "
                       "loop over the fragment, or copy the fragment to shared memory");
}

}  // namespace tilelang::op
