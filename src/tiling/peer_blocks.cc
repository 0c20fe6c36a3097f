#include "tiling/peer_blocks.h"

#include "ir/async.h"
#include "ir/copy_operator.h"
#include "ir/launch_extent.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::tiling {

using ir::Array;
using ir::Expr;
using ir::Stmt;
using op::I32;

namespace {

constexpr size_t kMostAxes = 3;  // of a grid

}  // namespace

PeerBlocks::PeerBlocks(ir::Span span, int64_t parts)
    : span_(span),
      parts_(parts),
      part_("part", ir::dtypes::kInt32, span),
      arrived_(Barrier("arrived", parts - 1, 1)),
      gathered_(Barrier("gathered", 1, parts)) {}

// mbarriers that get so many arrivals each, of any block.
ir::Buffer PeerBlocks::Barrier(const char* name, int64_t count, int64_t arrivals) const {
  Array<Expr> counts;
  for (int64_t i = 0; i < count; ++i) counts.push_back(I32(arrivals));
  return ir::Buffer(name, ir::dtypes::kUInt64, {I32(count)}, {}, "shared.barrier",
                    {{"arrive_counts", counts}, {"of_cluster", true}, {op::kOfExchange, true}},
                    span_);
}

ir::KernelLaunch PeerBlocks::WithAxis(const ir::KernelLaunchNode* launch, int64_t blocks) const {
  Array<ir::Var> vars = launch->block_vars;
  Array<Expr> grid = launch->grid;
  vars.push_back(part_);
  grid.push_back(I32(blocks));
  return ir::KernelLaunch(vars, grid, launch->thread_vars, launch->threads, launch->attrs,
                          launch->body, launch->span);
}

ir::KernelLaunch PeerBlocks::InClusters(const ir::KernelLaunchNode* launch,
                                        const Stmt& body) const {
  Array<ir::Var> vars = launch->block_vars;
  Array<Expr> grid = launch->grid;
  Stmt own = body;
  if (grid.size() < kMostAxes) {
    vars.push_back(part_);
    grid.push_back(I32(parts_));
  } else {
    const ir::Var last = vars.back();
    ir::Var both(last->name, last.dtype(), span_);
    Expr peers = ir::Const(both.dtype(), parts_);
    own = ir::Substitute(body, {{last, ir::FloorDiv(both, peers)},
                                {part_, ir::CastTo(part_.dtype(), ir::FloorMod(both, peers))}});
    vars.Set(static_cast<int64_t>(vars.size()) - 1, both);
    grid.Set(static_cast<int64_t>(grid.size()) - 1,
             ir::EmptyLike(grid.back(), ir::ExtentInside(grid.back()) * peers));
  }
  Array<int64_t> cluster;
  for (size_t axis = 0; axis + 1 < grid.size(); ++axis) cluster.push_back(1);
  cluster.push_back(parts_);
  auto attrs = launch->attrs;
  attrs.Set("cluster_dims", cluster);
  return ir::KernelLaunch(vars, grid, launch->thread_vars, launch->threads, attrs, own,
                          launch->span);
}

Stmt PeerBlocks::Iterations(const ir::ForNode* loop, const Expr& steps, const Expr& extent) const {
  Expr first = ir::CastTo(loop->var.dtype(), part_ * steps);
  Stmt body = ir::Substitute(loop->body, {{loop->var, loop->var + first}});
  return ir::For(loop->var, loop->min, ir::CastTo(loop->extent.dtype(), extent), loop->Kind(), body,
                 loop->annotations, loop->span);
}

Expr PeerBlocks::Rank(int64_t distance) const {
  return ir::FloorMod(part_ + I32(distance), I32(parts_));
}

Expr PeerBlocks::Arrival(int64_t distance) const {
  return ir::Load(arrived_, {I32(distance - 1)}, span_);
}

Stmt PeerBlocks::AllocateBarriers() const { return ir::Alloc(arrived_, span_); }

Stmt PeerBlocks::Send(const ir::Region& from, const ir::Buffer& to, int64_t distance) const {
  return ir::Copy(from, ir::Region::Whole(to), {}, span_, Arrival(distance), Rank(distance));
}

Stmt PeerBlocks::Wait(int64_t distance) const {
  return ir::WaitParity(Arrival(distance), op::U32(0), span_);
}

Stmt PeerBlocks::AllocateBarrierOfLeader() const { return ir::Alloc(gathered_, span_); }

Stmt PeerBlocks::SendToLeader(const ir::Buffer& from, const ir::Region& to) const {
  return ir::Copy(ir::Region::Whole(from), to, {}, span_, ir::Load(gathered_, {I32(0)}, span_),
                  I32(0));
}

Stmt PeerBlocks::WaitForAll() const {
  return ir::WaitParity(ir::Load(gathered_, {I32(0)}, span_), op::U32(0), span_);
}

Stmt PeerBlocks::ByLeader(const Stmt& body) const {
  return ir::If(ir::MakeEq(part_, I32(0)), body, Stmt(), span_);
}

}  // namespace tilelang::tiling
