#include "transform/relayout.h"

#include <tvm/ffi/cast.h>

#include "op/copy_tmem.h"
#include "op/parallel.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using layout::Fragment;

namespace {

// to[..] = from[..], each element by the threads that `layout` gives.
ir::ParallelFor Loop(const Region& from, const Region& to, const Fragment& layout) {
  ir::Array<ir::Var> vars;
  ir::Array<Expr> source;
  ir::Array<Expr> target;
  for (size_t d = 0; d < to->extents.size(); ++d) {
    ir::Var var("i" + std::to_string(d), ir::dtypes::kInt32, from->buffer->span);
    vars.push_back(var);
    source.push_back(from->mins[d] + ir::CastTo(from->mins[d].dtype(), var));
    target.push_back(to->mins[d] + ir::CastTo(to->mins[d].dtype(), var));
  }
  ir::Span span = from->buffer->span;
  Stmt store = ir::Store(to->buffer, target, ir::Load(from->buffer, source, span), span);
  ir::Map<ir::String, ir::Any> annotations;
  annotations.Set("loop_layout", layout);
  return ir::ParallelFor(vars, to->extents, store, annotations, span);
}

Fragment LayoutOf(const Region& region, op::Context* ctx) {
  layout::Coord mins =
      op::StaticExtents(region->mins, "the corner of a fragment region", region->buffer->span);
  layout::Coord extents =
      op::StaticExtents(region->extents, "the extents of a fragment region", region->buffer->span);
  return ctx->layouts->GetFragment(region->buffer)->Slice(mins, extents);
}

bool WithinThreads(const ir::ParallelFor& loop, const Fragment& layout, op::Context* ctx) {
  arith::Analyzer::Scope scope(ctx->analyzer);
  for (size_t d = 0; d < loop->vars.size(); ++d) {
    ctx->analyzer->Bind(loop->vars[d], ir::Const(loop->vars[d].dtype(), 0), loop->extents[d]);
  }
  return !op::FindMismatch(op::ParallelInfo(loop.get()), layout, ctx);
}

}  // namespace

void Relayout(const Region& from, const Region& to, op::Context* ctx, std::vector<Stmt>* stmts) {
  Fragment target = LayoutOf(to, ctx);
  ir::ParallelFor direct = Loop(from, to, target);
  if (WithinThreads(direct, target, ctx)) {
    stmts->push_back(direct);
    return;
  }
  const Buffer& source = from->buffer;
  Buffer stage(ir::String(std::string(source->name) + "_stage"), source->dtype, from->extents, {},
               "shared.dyn", {}, source->span);
  stmts->push_back(ir::Alloc(stage, source->span));
  stmts->push_back(Loop(from, Region::Whole(stage), LayoutOf(from, ctx)));
  stmts->push_back(Loop(Region::Whole(stage), to, target));
}

Stmt ConvertTmemCopy(const ir::CopyNode* op, op::Context* ctx) {
  if (op::TmemCopyMismatch(op, ctx).empty()) return ffi::GetRef<Stmt>(op);
  bool load = op->src->buffer.IsTmem();
  const Region& side = load ? op->dst : op->src;
  const Buffer& fragment = side->buffer;
  Buffer twin(ir::String(std::string(fragment->name) + "_near"), fragment->dtype, side->extents, {},
              "local.fragment", {}, op->span);
  ctx->layouts->Set(twin, op::NearestFragment(op, ctx), op->span);
  Region whole = Region::Whole(twin);
  std::vector<Stmt> stmts = {ir::Alloc(twin, op->span)};
  if (load) {
    stmts.push_back(ir::Copy(op->src, whole, op->annotations, op->span));
    Relayout(whole, side, ctx, &stmts);
  } else {
    Relayout(side, whole, ctx, &stmts);
    stmts.push_back(ir::Copy(whole, op->dst, op->annotations, op->span));
  }
  return ir::Seq(ir::Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

}  // namespace tilelang::transform
