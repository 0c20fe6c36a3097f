#include "op/relayout.h"

#include <tvm/ffi/cast.h>

#include "op/index_eval.h"
#include "op/scratch.h"

namespace tilelang::op {

namespace ffi = tvm::ffi;

using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using layout::Fragment;

namespace {

// Returns the elements of a fragment that the loop's only store writes, all of them in each run.
std::optional<Region> WrittenRegion(const ParallelInfo& info, const Buffer& fragment) {
  const auto* loop = info.loop();
  const auto* store = loop->body.as<ir::StoreNode>();
  if (store == nullptr || !store->buffer.same_as(fragment)) return std::nullopt;
  ir::Array<Expr> mins;
  ir::Array<Expr> extents;
  std::vector<bool> used(loop->vars.size(), false);
  for (const Expr& index : store->indices) {
    auto match = MatchVarPlusRest(index, loop->vars);
    if (!match && UsesAny(index, loop->vars)) return std::nullopt;
    if (match && used[match->var]) return std::nullopt;
    if (match) used[match->var] = true;
    mins.push_back(match ? match->rest : index);
    extents.push_back(match ? loop->extents[match->var] : Expr(1));
  }
  return Region(fragment, mins, extents);
}

// Allocates shared memory for elements of a fragment.
Buffer NewStage(const Buffer& fragment, const ir::Array<Expr>& extents, std::vector<Stmt>* stmts) {
  Buffer stage(ir::String(std::string(fragment->name) + "_stage"), fragment->dtype, extents, {},
               "shared.dyn", ScratchAttrs(), fragment->span);
  stmts->push_back(ir::Alloc(stage, fragment->span));
  return stage;
}

bool WithinThreads(const ir::ParallelFor& loop, Context* ctx) {
  arith::Analyzer::Scope scope(ctx->analyzer);
  for (size_t d = 0; d < loop->vars.size(); ++d) {
    ctx->analyzer->Bind(loop->vars[d], ir::Const(loop->vars[d].dtype(), 0), loop->extents[d]);
  }
  auto layout = loop->annotations.Get("loop_layout");
  return !FindMismatch(ParallelInfo(loop.get()), (*layout).cast<Fragment>(), ctx);
}

}  // namespace

Fragment LayoutOf(const Region& region, Context* ctx) {
  layout::Coord mins =
      StaticExtents(region->mins, "the corner of a fragment region", region->buffer->span);
  layout::Coord extents =
      StaticExtents(region->extents, "the extents of a fragment region", region->buffer->span);
  return ctx->layouts->GetFragment(region->buffer)->Slice(mins, extents);
}

namespace {

// Restricts a loop over a whole fragment to a region of it.
ir::ParallelFor Within(const Region& region, const ir::ParallelFor& loop) {
  Expr inside;
  for (size_t d = 0; d < loop->vars.size(); ++d) {
    Expr var = ir::CastTo(region->mins[d].dtype(), loop->vars[d]);
    Expr end = region->mins[d] + ir::CastTo(var.dtype(), region->extents[d]);
    Expr here = region->mins[d] <= var && var < end;
    inside = inside.defined() ? inside && here : here;
  }
  return ir::ParallelFor(loop->vars, loop->extents, ir::If(inside, loop->body), loop->annotations,
                         loop->span);
}

layout::Coord MinsOf(const Region& region) {
  return StaticExtents(region->mins, "the corner of a fragment region", region->buffer->span);
}

bool HasClosedInverse(const Region& owner, Context* ctx) {
  return layout::InverseDigits(LayoutOf(owner, ctx)).has_value();
}

// Makes a loop for to[..] = from[..], in which the threads that hold an element in `owner`, one of
// the two, copy it. If no closed form tells a thread its elements of a slice, the loop runs over
// the whole fragment.
ir::ParallelFor Loop(const Region& from, const Region& to, const Region& owner,
                     const ir::Span& span, Context* ctx) {
  bool closed = HasClosedInverse(owner, ctx);
  Region around = closed ? owner : Region::Whole(owner->buffer);
  layout::Coord first = closed ? layout::Coord(around->mins.size(), 0) : MinsOf(owner);
  ir::Array<ir::Var> vars;
  for (size_t d = 0; d < around->extents.size(); ++d) {
    vars.push_back(ir::Var("i" + std::to_string(d), ir::dtypes::kInt32, span));
  }
  auto indices = [&](const Region& region) {
    layout::Coord corner = MinsOf(region);
    ir::Array<Expr> all;
    for (size_t d = 0; d < vars.size(); ++d) {
      int64_t shift = corner[d] - first[d];
      all.push_back(shift == 0 ? Expr(vars[d]) : vars[d] + ir::Const(ir::dtypes::kInt32, shift));
    }
    return all;
  };
  Stmt store =
      ir::Store(to->buffer, indices(to), ir::Load(from->buffer, indices(from), span), span);
  ir::Map<ir::String, ir::Any> annotations;
  annotations.Set("loop_layout", LayoutOf(around, ctx));
  ir::ParallelFor loop(vars, around->extents, store, annotations, span);
  return closed ? loop : Within(owner, loop);
}

}  // namespace

void Relayout(const Region& from, const Region& to, const ir::Span& span, Context* ctx,
              std::vector<Stmt>* stmts) {
  // A loop over more than the region stays inside of both fragments if it is the same region of
  // both.
  bool in_range =
      HasClosedInverse(to, ctx) ||
      (MinsOf(from) == MinsOf(to) && StaticShape(from->buffer) == StaticShape(to->buffer));
  if (in_range) {
    ir::ParallelFor direct = Loop(from, to, to, span, ctx);
    if (WithinThreads(direct, ctx)) {
      stmts->push_back(direct);
      return;
    }
  }
  Buffer stage = NewStage(from->buffer, from->extents, stmts);
  stmts->push_back(Loop(from, Region::Whole(stage), from, span, ctx));
  stmts->push_back(Loop(Region::Whole(stage), to, to, span, ctx));
}

bool IsHeldByAll(const Fragment& fragment, const ThreadRange& threads) {
  return fragment->thread->Cosize() - fragment->thread->offset == 1 &&
         fragment->Replicas() >= threads.count;
}

Buffer StageRead(const Region& read, const ir::Span& span, Context* ctx, std::vector<Stmt>* stmts) {
  Buffer stage = NewStage(read->buffer, read->extents, stmts);
  stmts->push_back(Loop(read, Region::Whole(stage), read, span, ctx));
  return stage;
}

Buffer StageInShared(const Buffer& fragment, const ParallelInfo& loop, Context* ctx,
                     std::vector<Stmt>* before, std::vector<Stmt>* after) {
  bool read = false;
  bool written = false;
  for (const Access& access : loop.accesses()) {
    if (access.buffer.same_as(fragment)) (access.is_write ? written : read) = true;
  }
  auto region = read ? std::nullopt : WrittenRegion(loop, fragment);
  Buffer stage = NewStage(fragment, fragment->shape, before);
  Region registers = Region::Whole(fragment);
  const ir::Span& span = loop.loop()->span;
  // Elements that are overwritten need not be copied before.
  if (!region) before->push_back(Loop(registers, Region::Whole(stage), registers, span, ctx));
  if (written) {
    ir::ParallelFor back = Loop(Region::Whole(stage), registers, registers, span, ctx);
    after->insert(after->begin(), region ? Within(*region, back) : back);
  }
  return stage;
}

}  // namespace tilelang::op
