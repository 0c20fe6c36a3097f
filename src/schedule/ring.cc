#include "schedule/ring.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "layout/layout.h"
#include "op/copy_cluster.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/tmem.h"

namespace tilelang::schedule {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using op::I32;
using op::U32;

Ring MakeSlots(const Channel& channel) {
  Ring ring{&channel, {}, {}, {}};
  for (const Buffer& tile : channel.tiles) {
    Array<Expr> shape = {I32(channel.slots)};
    for (const Expr& extent : tile->shape) shape.push_back(extent);
    ir::Map<ir::String, ir::Any> attrs = tile->attrs;
    if (tile.IsTmem()) attrs.Set(op::kOfRoles, true);
    ring.slots.emplace_back(tile->name, tile->dtype, shape, Array<Expr>{}, tile->scope, attrs,
                            tile->span);
  }
  return ring;
}

Ring MakeRing(const Channel& channel, int64_t producers, int64_t consumers) {
  Ring ring = MakeSlots(channel);
  const ir::Span& span = channel.tiles.front()->span;
  ring.full = op::MakeRingBarrier(channel.Name() + "_full", channel.slots, producers, span);
  Expr releases = I32(consumers);
  if (channel.blocks != 0) {
    Expr of_all = I32(consumers * op::CountBlocks(channel.blocks));
    releases = ir::Select(op::IsInMask(channel.blocks, channel.cluster), of_all, releases, span);
  }
  ring.empty = op::MakeRingBarrier(channel.Name() + "_empty", channel.slots, releases, span);
  return ring;
}

const Handover* FindHandover(const Ring& ring, const ir::SeqNode* seq) {
  const auto& all = ring.channel->handovers;
  auto it = std::find_if(all.begin(), all.end(), [&](const Handover& h) { return h.seq == seq; });
  return it == all.end() ? nullptr : &*it;
}

UseCounter::UseCounter(const Ring& ring, const std::string& name) : ring_(&ring) {
  ir::Map<ir::String, ir::Any> init;
  init.Set("init", U32(0));
  const ir::Span& span = ring.full->span;
  count_ = Buffer(name, ir::dtypes::kUInt32, {I32(1)}, {}, "local.var", init, span);
}

Expr UseCounter::BindSlot(const ir::Span& span, std::vector<Stmt>* stmts) const {
  ir::Var slot(ring_->channel->Name() + "_slot", ir::dtypes::kInt32, span);
  Expr number = ir::FloorMod(Count(), U32(Slots()));
  stmts->push_back(ir::Bind(slot, ir::CastTo(ir::dtypes::kInt32, number), span));
  return slot;
}

Stmt UseCounter::Wait(const Buffer& barrier, const Expr& slot, int before, const ir::Span& span,
                      ir::Scope scope) const {
  Expr phase = ir::FloorDiv(Count(), U32(Slots())) + U32(before);
  Expr parity = ir::FloorMod(phase, U32(2));
  return ir::WaitParity(ir::Load(barrier, {slot}), parity, span, scope);
}

Stmt UseCounter::WaitFull(const Expr& slot, const ir::Span& span, ir::Scope scope) const {
  return Wait(ring_->full, slot, 0, span, scope);
}

// The phase before the first is complete from the start: the slots are empty.
Stmt UseCounter::WaitEmpty(const Expr& slot, const ir::Span& span) const {
  return Wait(ring_->empty, slot, 1, span);
}

Stmt UseCounter::Advance(const ir::Span& span) const {
  return ir::Store(count_, {I32(0)}, Count() + U32(1), span);
}

Stmt UseCounter::Follow(const UseCounter& other, const ir::Span& span) const {
  return ir::Store(count_, {I32(0)}, other.Count(), span);
}

Stmt Arrive(const Buffer& barrier, const Expr& slot, const ir::Span& span,
            ir::Arrive::Options options) {
  return ir::Arrive(ir::ArriveKind::kThread, ir::Load(barrier, {slot}), span, std::move(options));
}

Stmt Release(const Ring& ring, const Expr& slot, const ir::Span& span) {
  auto arrive = [&](const Expr& block) {
    Array<Buffer> gives(ring.slots.begin(), ring.slots.end());
    return Arrive(ring.empty, slot, span, {.block = block, .gives = gives});
  };
  if (ring.given_back_to >= 0) return arrive(U32(ring.given_back_to));
  Stmt own = arrive(ring.of_pair ? op::PairLeader() : Expr());
  int64_t mask = ring.channel->blocks;
  if (mask == 0) return own;
  std::vector<Stmt> all;
  for (int64_t rank = 0; rank < ring.channel->cluster; ++rank) {
    if ((mask >> rank & 1) != 0) all.push_back(arrive(U32(rank)));
  }
  return WhereShared(ring, op::Sequence(all, span), own);
}

Stmt WhereShared(const Ring& ring, const Stmt& in_all, const Stmt& in_own) {
  Expr shares = op::IsInMask(ring.channel->blocks, ring.channel->cluster);
  return ir::IsTrue(shares) ? in_all : ir::If(shares, in_all, in_own, in_all.span());
}

void SlotMap::Enter(const Ring& ring, const Expr& slot) {
  for (size_t i = 0; i < ring.slots.size(); ++i) {
    current_.insert_or_assign(ring.channel->tiles[i].get(), std::pair(ring.slots[i], slot));
  }
}

Region SlotMap::InSlot(const Region& region) const {
  auto it = current_.find(region->buffer.get());
  if (it == current_.end()) return region;
  Array<Expr> extents = {I32(1)};
  for (const Expr& extent : region->extents) extents.push_back(extent);
  auto [slots, mins] = InSlot(region->buffer, region->mins);
  return Region(slots, mins, extents);
}

std::pair<Buffer, Array<Expr>> SlotMap::InSlot(const Buffer& buffer,
                                               const Array<Expr>& indices) const {
  auto it = current_.find(buffer.get());
  if (it == current_.end()) return {buffer, indices};
  Array<Expr> all = {it->second.second};
  for (const Expr& index : indices) all.push_back(index);
  return {it->second.first, all};
}

Expr SlotMutator::Rewrite(const ir::LoadNode* op) {
  auto [buffer, indices] = slots_.InSlot(op->buffer, MutateExprs(op->indices));
  return ir::Load(buffer, indices, op->span);
}

Stmt SlotMutator::Rewrite(const ir::StoreNode* op) {
  auto [buffer, indices] = slots_.InSlot(op->buffer, MutateExprs(op->indices));
  return ir::Store(buffer, indices, Mutate(op->value), op->span);
}

Region SlotMutator::MutateRegion(const Region& region) {
  return slots_.InSlot(StmtMutator::MutateRegion(region));
}

ir::Map<ir::String, ir::Any> WithStackedLayouts(const ir::KernelLaunchNode* launch,
                                                const std::vector<Ring>& rings) {
  ir::Map<ir::String, ir::Any> attrs = launch->attrs;
  auto annotated = attrs.Get("layout_map");
  if (!annotated) return attrs;
  auto layouts = (*annotated).cast<ir::Map<Buffer, ir::Any>>();
  for (const Ring& ring : rings) {
    for (size_t i = 0; i < ring.slots.size(); ++i) {
      const Buffer& tile = ring.channel->tiles[i];
      auto layout = layouts.Get(tile);
      if (!layout) continue;
      layouts.erase(tile);
      layouts.Set(ring.slots[i], (*layout).cast<layout::Layout>().Stack(ring.channel->slots));
    }
  }
  attrs.Set("layout_map", layouts);
  return attrs;
}

}  // namespace tilelang::schedule
