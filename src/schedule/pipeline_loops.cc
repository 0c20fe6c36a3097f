#include "schedule/pipeline_loops.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "layout/layout.h"
#include "op/copy_tma.h"
#include "op/effect.h"
#include "op/issue.h"
#include "schedule/channel.h"
#include "schedule/producer.h"
#include "transform/kernel_scope.h"
#include "transform/remark.h"
#include "transform/uniformity.h"

namespace tilelang::schedule {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Map;
using ir::Region;
using ir::Stmt;
using op::I32;

namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kWarpgroup = 128;
constexpr int64_t kMaxThreads = 1024;

// A channel and what it is made of.
struct Ring {
  const Channel* channel;
  std::vector<Buffer> slots;  // of each tile: its shape after the number of the slot
  Buffer full;
  Buffer empty;
};

Ring MakeRing(const Channel& channel, int64_t producers, int64_t consumers) {
  Ring ring{&channel, {}, {}, {}};
  for (const Buffer& tile : channel.tiles) {
    Array<Expr> shape = {I32(channel.slots)};
    for (const Expr& extent : tile->shape) shape.push_back(extent);
    ring.slots.emplace_back(tile->name, tile->dtype, shape, Array<Expr>{}, tile->scope, tile->attrs,
                            tile->span);
  }
  const ir::Span& span = channel.tiles.front()->span;
  ring.full = op::MakeRingBarrier(channel.Name() + "_full", channel.slots, producers, span);
  ring.empty = op::MakeRingBarrier(channel.Name() + "_empty", channel.slots, consumers, span);
  return ring;
}

// The uses of one channel by one role.
class UseCounter {
 public:
  UseCounter(const Ring& ring, const std::string& name) : ring_(&ring) {
    Map<ir::String, ir::Any> init;
    init.Set("init", op::U32(0));
    const ir::Span& span = ring.full->span;
    count_ = Buffer(name, ir::dtypes::kUInt32, {I32(1)}, {}, "local.var", init, span);
  }

  Stmt Alloc() const { return ir::Alloc(count_, count_->span); }
  // The slot of the next use, bound to a variable.
  Expr BindSlot(const ir::Span& span, std::vector<Stmt>* stmts) const {
    ir::Var slot(ring_->channel->Name() + "_slot", ir::dtypes::kInt32, span);
    Expr number = ir::FloorMod(Count(), op::U32(Slots()));
    stmts->push_back(ir::Bind(slot, ir::CastTo(ir::dtypes::kInt32, number), span));
    return slot;
  }
  // Waits until the barrier of the slot has completed its phase number uses / slots - `before`.
  Stmt Wait(const Buffer& barrier, const Expr& slot, int before, const ir::Span& span) const {
    Expr phase = ir::FloorDiv(Count(), op::U32(Slots())) + op::U32(before);
    Expr parity = ir::FloorMod(phase, op::U32(2));
    return op::Effect("mbarrier_wait_parity", {ir::AddressOf(barrier, {slot}), parity}, span);
  }
  Stmt Advance(const ir::Span& span) const {
    return ir::Store(count_, {I32(0)}, Count() + op::U32(1), span);
  }

 private:
  int64_t Slots() const { return ring_->channel->slots; }
  Expr Count() const { return ir::Load(count_, {I32(0)}); }

  const Ring* ring_;
  Buffer count_;
};

Stmt Arrive(const Buffer& barrier, const Expr& slot, const ir::Span& span) {
  return op::Effect("mbarrier_arrive", {ir::AddressOf(barrier, {slot})}, span);
}

const Handover* FindHandover(const Ring& ring, const ir::SeqNode* seq) {
  const auto& all = ring.channel->handovers;
  auto it = std::find_if(all.begin(), all.end(), [&](const Handover& h) { return h.seq == seq; });
  return it == all.end() ? nullptr : &*it;
}

// A tile's accesses go to the current slot of its ring.
class SlotMap {
 public:
  void Enter(const Ring& ring, const Expr& slot) {
    for (size_t i = 0; i < ring.slots.size(); ++i) {
      current_.insert_or_assign(ring.channel->tiles[i].get(), std::pair(ring.slots[i], slot));
    }
  }
  Region InSlot(const Region& region) const {
    auto it = current_.find(region->buffer.get());
    if (it == current_.end()) return region;
    Array<Expr> mins = {it->second.second};
    Array<Expr> extents = {I32(1)};
    for (const Expr& min : region->mins) mins.push_back(min);
    for (const Expr& extent : region->extents) extents.push_back(extent);
    return Region(it->second.first, mins, extents);
  }
  // The buffer and the indices of an element.
  std::pair<Buffer, Array<Expr>> InSlot(const Buffer& buffer, const Array<Expr>& indices) const {
    auto it = current_.find(buffer.get());
    if (it == current_.end()) return {buffer, indices};
    Array<Expr> all = {it->second.second};
    for (const Expr& index : indices) all.push_back(index);
    return {it->second.first, all};
  }

 private:
  std::map<const ffi::Object*, std::pair<Buffer, Expr>> current_;
};

// The role that loads.
class ProducerWriter : public SliceCopier {
 public:
  ProducerWriter(const ir::KernelLaunchNode* launch, const LoadSlice& slice,
                 const std::vector<Ring>& rings, const op::ThreadRange& threads)
      : SliceCopier(launch, slice), threads_(threads) {
    for (const Ring& ring : rings) {
      uses_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_loads"));
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const auto& [ring, uses] : uses_) stmts.push_back(uses.Alloc());
    stmts.push_back(MutateStmt(body));
    return op::Sequence(stmts, body.span());
  }

 protected:
  void Append(const ir::SeqNode* seq, size_t i, std::vector<Stmt>* stmts) override {
    const ir::Span& span = seq->stmts[i].span();
    for (const auto& [ring, uses] : uses_) {
      const Handover* handover = FindHandover(*ring, seq);
      if (handover == nullptr || handover->loads.front() != i) continue;
      Expr slot = uses.BindSlot(span, stmts);
      stmts->push_back(uses.Wait(ring->empty, slot, 1, span));
      slots_.Enter(*ring, slot);
      slot_of_[ring] = slot;
    }
    SliceCopier::Append(seq, i, stmts);
    for (const auto& [ring, uses] : uses_) {
      const Handover* handover = FindHandover(*ring, seq);
      if (handover == nullptr || handover->loads.back() != i) continue;
      stmts->push_back(Arrive(ring->full, slot_of_.at(ring), span));
      stmts->push_back(uses.Advance(span));
    }
  }

 public:
  using SliceCopier::Rewrite;
  Stmt Rewrite(const ir::CopyNode* op) override {
    const Ring* ring = RingOf(op->dst->buffer);
    Expr full = ir::Load(ring->full, {slot_of_.at(ring)});
    Stmt load = ir::Copy(MutateRegion(op->src), slots_.InSlot(MutateRegion(op->dst)),
                         op->annotations, op->span, full);
    return ir::WithPlan(load,
                        op::TilePlan(ffi::make_object<op::TilePlanNode>(op::TmaLoad(), threads_)));
  }

 private:
  const Ring* RingOf(const Buffer& tile) const {
    for (const auto& [ring, uses] : uses_) {
      for (const Buffer& known : ring->channel->tiles) {
        if (known.same_as(tile)) return ring;
      }
    }
    TVM_FFI_UNREACHABLE();
  }

  op::ThreadRange threads_;
  std::vector<std::pair<const Ring*, UseCounter>> uses_;
  std::map<const Ring*, Expr> slot_of_;
  SlotMap slots_;
};

// The roles that compute: everything but the loads.
class ConsumerWriter : public ir::StmtMutator {
 public:
  explicit ConsumerWriter(const std::vector<Ring>& rings) {
    for (const Ring& ring : rings) {
      uses_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_uses"));
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const auto& [ring, uses] : uses_) stmts.push_back(uses.Alloc());
    stmts.push_back(MutateStmt(body));
    return op::Sequence(stmts, body.span());
  }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    std::map<const Ring*, Expr> slot_of;
    for (size_t i = 0; i < op->stmts.size(); ++i) {
      const ir::Span& span = op->stmts[i].span();
      bool loads = false;
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr) continue;
        loads |= std::count(handover->loads.begin(), handover->loads.end(), i) != 0;
        if (handover->first_use != i) continue;
        Expr slot = uses.BindSlot(span, &stmts);
        stmts.push_back(uses.Wait(ring->full, slot, 0, span));
        slots_.Enter(*ring, slot);
        slot_of[ring] = slot;
      }
      if (!loads && !IsTileAlloc(op->stmts[i])) stmts.push_back(MutateStmt(op->stmts[i]));
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr || handover->last_use != i) continue;
        stmts.push_back(Arrive(ring->empty, slot_of.at(ring), span));
        stmts.push_back(uses.Advance(span));
      }
    }
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    auto [buffer, indices] = slots_.InSlot(op->buffer, MutateExprs(op->indices));
    return ir::Load(buffer, indices, op->span);
  }
  Stmt Rewrite(const ir::StoreNode* op) override {
    auto [buffer, indices] = slots_.InSlot(op->buffer, MutateExprs(op->indices));
    return ir::Store(buffer, indices, Mutate(op->value), op->span);
  }

 protected:
  Region MutateRegion(const Region& region) override {
    return slots_.InSlot(StmtMutator::MutateRegion(region));
  }

 private:
  bool IsTileAlloc(const Stmt& s) const {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr) return false;
    return std::any_of(uses_.begin(), uses_.end(), [&](const auto& item) {
      const auto& tiles = item.first->channel->tiles;
      return std::any_of(tiles.begin(), tiles.end(),
                         [&](const Buffer& tile) { return tile.same_as(alloc->buffer); });
    });
  }

  std::vector<std::pair<const Ring*, UseCounter>> uses_;
  SlotMap slots_;
};

// What keeps a program from getting roles: some of its own, or barriers; nothing when it may.
std::string OwnRoles(const ir::KernelLaunchNode* launch) {
  std::string reason;
  ir::WalkExprs(launch->body, [&](const Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    const ir::Intrinsic* known = ir::FindIntrinsic({call->name.data(), call->name.size()});
    if (known == nullptr || call->name == "call_extern") {
      reason = "the program calls " + std::string(call->name);
    } else if (known->sync == ir::SyncKind::kCta || known->header == "barrier.h") {
      reason = "the program synchronizes threads itself, by " + std::string(call->name);
    }
    return true;
  });
  transform::Uniformity uniformity(launch);
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* gemm = s.as<ir::GemmNode>();
    if (gemm != nullptr && gemm->mbar.defined()) reason = "the program waits for gemms itself";
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc != nullptr && alloc->buffer.IsBarrier()) reason = "the program has barriers";
    const auto* branch = s.as<ir::IfNode>();
    bool tiles = false;
    if (branch != nullptr && !uniformity.IsUniform(branch->condition)) {
      ir::WalkStmts(s, [&](const Stmt& inner) {
        tiles |= inner.as<ir::TileOpNode>() != nullptr || inner->kind == ir::StmtKind::kParallelFor;
        return !tiles;
      });
    }
    if (tiles) reason = "the program has roles of its own";
    return true;
  });
  return reason;
}

// Why the threads of a block are not joined by others, to `threads` in all; nothing when they are.
std::string WhyOneRole(const ir::KernelLaunchNode* launch, int64_t threads) {
  if (transform::ThreadsOf(launch).linear->kind != ir::ExprKind::kVar) {
    return "the threads of the block are not counted along one dimension";
  }
  if (threads % kWarp != 0) return "the threads of the block are not whole warps";
  if (threads > kMaxThreads) return "the block has no room for a further warp";
  return OwnRoles(launch);
}

class Launches : public ir::StmtMutator {
 public:
  Launches(Target target, bool with_roles) : target_(std::move(target)), with_roles_(with_roles) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt launch = with_roles_ ? WithRoles(op) : ffi::GetRef<Stmt>(op);
    return StmtMutator::Rewrite(launch.as<ir::KernelLaunchNode>());
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt body = MutateStmt(op->body);
    ir::ForKind kind = op->Kind() == ir::ForKind::kPipelined ? ir::ForKind::kSerial : op->Kind();
    return ir::For(op->var, op->min, op->extent, kind, body, op->annotations, op->span);
  }

 private:
  Stmt WithRoles(const ir::KernelLaunchNode* op) const;

  Target target_;
  bool with_roles_;
};

// The channels whose loads another role can execute; their loads are in the slice.
std::vector<Channel> Loadable(const std::vector<Channel>& channels,
                              const ir::KernelLaunchNode* launch, LoadSlice* slice) {
  std::vector<Channel> result;
  LoadSlice all(launch);
  for (const Channel& channel : channels) {
    std::vector<const ir::CopyNode*> loads;
    for (const Handover& handover : channel.handovers) {
      for (size_t at : handover.loads) {
        loads.push_back(handover.seq->stmts[at].as<ir::CopyNode>());
      }
    }
    LoadSlice alone(launch);
    std::string reason;
    for (const ir::CopyNode* load : loads) {
      if (reason.empty()) reason = alone.Add(load);
    }
    for (const ir::CopyNode* load : loads) {
      if (reason.empty()) {
        all.Add(load);
      } else {
        RemarkCopy(load, "is not pipelined: " + reason);
      }
    }
    if (reason.empty()) result.push_back(channel);
  }
  *slice = std::move(all);
  return result;
}

// Registers of a thread: what the producers leave is for the others.
struct RegisterShares {
  int64_t producer = 0;  // 0: as launched
  int64_t consumer = 0;
};
// With the program's own numbers where it gives them: (producer, consumer), -1 for none.
RegisterShares ShareRegisters(const ir::KernelLaunchNode* launch, int64_t consumers,
                              int64_t service) {
  constexpr int64_t kRegisters = 65536;
  constexpr int64_t kMost = 240;
  constexpr int64_t kUnit = 8;
  if (service != kWarpgroup || consumers <= kWarpgroup) return {};
  std::vector<int64_t> given = {-1, -1};
  if (auto attr = launch->attrs.Get("set_max_nreg")) {
    auto shares = (*attr).cast<Array<int64_t>>();
    given.assign(shares.begin(), shares.end());
  }
  int64_t producer = consumers > 2 * kWarpgroup ? 32 : 40;
  if (given[0] >= 0) producer = given[0];
  int64_t left = (kRegisters - service * producer) / consumers / kUnit * kUnit;
  if (given[1] > left) {
    TL_USER_ERROR(kResource, launch->span,
                  given[1] << " registers for each of " << consumers << " threads and " << producer
                           << " for each of " << service << " that load are more than the "
                           << kRegisters << " of a multiprocessor: at most " << left);
  }
  return {producer, given[1] >= 0 ? given[1] : std::min(kMost, left)};
}

Stmt SetRegisters(int64_t count, bool more, const ir::Span& span) {
  return op::Effect("set_max_nreg", {I32(count), I32(more)}, span);
}

Map<ir::String, ir::Any> WithStackedLayouts(const ir::KernelLaunchNode* launch,
                                            const std::vector<Ring>& rings) {
  Map<ir::String, ir::Any> attrs = launch->attrs;
  auto annotated = attrs.Get("layout_map");
  if (!annotated) return attrs;
  auto layouts = (*annotated).cast<Map<Buffer, ir::Any>>();
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

// Remarks on the loops whose stages no channel makes use of.
void RemarkSerialLoops(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels,
                       const std::string& reason) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    int64_t stages = loop == nullptr ? 0 : StagesOf(loop);
    if (stages < 2) return true;
    bool used = false;
    ir::WalkStmts(s, [&](const Stmt& inner) {
      for (const Channel& channel : channels) {
        for (const Handover& handover : channel.handovers) used |= handover.seq == inner.get();
      }
      return !used;
    });
    if (!used) {
      Remark(s.span(), "pipeline",
             "T.Pipelined: num_stages=" + std::to_string(stages) + " has no effect: " + reason);
    }
    return true;
  });
}

Stmt Launches::WithRoles(const ir::KernelLaunchNode* op) const {
  Stmt self = ffi::GetRef<Stmt>(op);
  std::vector<Channel> channels = FindChannels(op);
  transform::LaunchThreads threads = transform::ThreadsOf(op);
  // Registers are given away by whole warpgroups.
  bool warpgroups = target_->has_wgmma && threads.count % kWarpgroup == 0;
  int64_t service = warpgroups ? kWarpgroup : kWarp;
  std::string reason = WhyOneRole(op, threads.count + service);
  if (!reason.empty()) channels.clear();
  if (reason.empty())
    reason = "no tile of the loop is loaded by the tensor memory accelerator alone";
  LoadSlice slice(op);
  if (!channels.empty()) channels = Loadable(channels, op, &slice);
  RemarkSerialLoops(op, channels, reason);
  if (channels.empty()) return self;

  op::ThreadRange producers{threads.count, kWarp};
  std::vector<Ring> rings;
  for (const Channel& channel : channels) {
    rings.push_back(MakeRing(channel, producers.count, threads.count));
  }
  Stmt loads = ProducerWriter(op, slice, rings, producers).Write(op->body);
  Stmt work = ConsumerWriter(rings).Write(op->body);
  RegisterShares registers = ShareRegisters(op, threads.count, service);
  if (service > kWarp) {
    loads = ir::If(threads.linear < I32(threads.count + kWarp), loads, Stmt(), op->span);
  }
  if (registers.producer > 0) {
    loads = op::Sequence({SetRegisters(registers.producer, false, op->span), loads}, op->span);
    work = op::Sequence({SetRegisters(registers.consumer, true, op->span), work}, op->span);
  }
  std::vector<Stmt> body;
  for (const Ring& ring : rings) {
    for (const Buffer& slots : ring.slots) body.push_back(ir::Alloc(slots, slots->span));
    for (const Buffer& barrier : {ring.full, ring.empty}) {
      body.push_back(ir::Alloc(barrier, barrier->span));
    }
  }
  body.push_back(ir::If(threads.linear >= I32(threads.count), loads, work, op->span));
  return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, {I32(threads.count + service)},
                          WithStackedLayouts(op, rings), op::Sequence(body, op->span), op->span);
}

}  // namespace

ir::Func PipelineLoops(const ir::Func& func, const Target& target, bool with_roles) {
  return func.WithBody(Launches(target, with_roles).MutateStmt(func->body));
}

}  // namespace tilelang::schedule
