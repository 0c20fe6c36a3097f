// Named barriers of a CTA (bar, barrier) and the barrier of a cluster.
#include <algorithm>
#include <bit>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

enum class Action : uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };

struct BarrierOp {
  Action action = Action::kSync;
  bool aligned = true;
  bool counted = false;
  uint32_t id = kNoSlot, count = kNoSlot, result = kNoSlot, predicate = kNoSlot;
};

std::string DescribeBarrier(const Warp& warp, const WaitInfo& info) {
  const NamedBarrier& barrier = warp.cta.barriers[info.detail];
  uint32_t expected = barrier.expected ? barrier.expected : warp.cta.live_threads;
  return "barrier " + std::to_string(info.detail) + ", " + std::to_string(barrier.arrived) +
         " of " + std::to_string(expected) + " threads have arrived";
}

// Returns whether a barrier opens. A barrier of all threads opens when all threads that have not
// exited are there.
bool Complete(const Cta& cta, const NamedBarrier& barrier) {
  uint32_t expected = barrier.expected ? barrier.expected : cta.live_threads;
  return barrier.arrived > 0 && barrier.arrived >= expected;
}

void Open(NamedBarrier& barrier, Timing* timing) {
  if (timing) timing->Complete(&barrier, true);
  barrier.result = barrier.reduction_popc;
  barrier.result_and = barrier.reduction_and;
  barrier.result_or = barrier.reduction_or;
  barrier.arrived = barrier.expected = 0;
  std::fill_n(barrier.lanes, NamedBarrier::kWarps, 0);
  barrier.reduction_popc = barrier.reduction_or = 0;
  barrier.reduction_and = 1;
  ++barrier.phase;
}

uint32_t CheckedId(Warp& w, int lane, uint32_t id) {
  if (id > 15) {
    Fail(w.Here(lane), "illegal-operand",
         "barrier " + std::to_string(id) + " does not exist; a CTA has barriers 0 to 15");
  }
  return id;
}

void Arrive(Warp& w, const BarrierOp& b, uint32_t mask, NamedBarrier& barrier, uint32_t id) {
  int lane = std::countr_zero(mask);
  uint32_t threads = static_cast<uint32_t>(std::popcount(mask));
  uint32_t expected = b.counted ? w.Reg<uint32_t>(b.count)[lane] : 0;
  if (b.counted && (expected == 0 || expected % 32 || expected > 1024)) {
    Fail(w.Here(lane), "illegal-operand",
         "the thread count of a barrier must be a multiple of 32 up to 1024, got " +
             std::to_string(expected));
  }
  if (barrier.arrived && barrier.expected != expected) {
    Fail(w.Here(lane), "barrier",
         "barrier " + std::to_string(id) + " is used with " + std::to_string(expected) +
             " threads while others wait on it with " + std::to_string(barrier.expected));
  }
  // Counts are of whole warps: the last live lanes of a warp to arrive count for the lanes that do
  // not exist, or have exited elsewhere. Lanes that have arrived and exited count already.
  uint32_t& there = barrier.lanes[w.index];
  if (there & mask) there = 0;  // arrives again
  if (b.counted && (w.live & ~(there | mask)) == 0) {
    threads = kLanes - static_cast<uint32_t>(std::popcount(there));
  }
  there |= mask;
  barrier.expected = expected;
  barrier.arrived += threads;
  if (expected && barrier.arrived > expected) {
    Fail(w.Here(lane), "barrier",
         "more than the expected " + std::to_string(expected) + " threads arrive at barrier " +
             std::to_string(id));
  }
  if (b.action >= Action::kRedPopc) {
    uint32_t votes = w.Predicate(b.predicate) & mask;
    barrier.reduction_popc += static_cast<uint32_t>(std::popcount(votes));
    barrier.reduction_and &= votes == mask;
    barrier.reduction_or |= votes != 0;
  }
}

void WriteResult(Warp& w, const BarrierOp& b, uint32_t mask, const NamedBarrier& barrier) {
  switch (b.action) {
    case Action::kRedPopc: {
      uint32_t* d = w.Reg<uint32_t>(b.result);
      ForEachLane(mask, [&](int i) { d[i] = barrier.result; });
      return;
    }
    case Action::kRedAnd:
      w.SetPredicate(b.result, mask, barrier.result_and ? kAllLanes : 0);
      return;
    case Action::kRedOr:
      w.SetPredicate(b.result, mask, barrier.result_or ? kAllLanes : 0);
      return;
    default:
      return;
  }
}

void Notify(Warp& w, SyncEvent event, uint32_t id, uint32_t mask) {
  AccessObserver* observer = w.cta.cluster.launch.observer;
  if (!observer) return;
  observer->OnSync(event, id, w.Here(std::countr_zero(mask)));
}

// resume: 0 before arrival, then the awaited phase + 1.
Flow Barrier(Warp& w, const Op& op, uint32_t mask) {
  const BarrierOp& b = op.Extra<BarrierOp>();
  uint32_t id = w.Reg<uint32_t>(b.id)[std::countr_zero(mask)];
  Timing* timing = w.cta.cluster.timing;
  if (w.split().resume == 0) {
    if (b.aligned) {
      if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
    }
    CheckedId(w, std::countr_zero(mask), id);
    NamedBarrier& barrier = w.cta.barriers[id];
    uint32_t rest = w.split().mask & ~mask;
    if (rest && b.action != Action::kArrive) w.SplitOff(rest, w.Pc() + 1);
    Arrive(w, b, mask, barrier, id);
    if (timing) timing->Arrive(&barrier, w.Here(std::countr_zero(mask)));
    Notify(w, SyncEvent::kBarrierArrive, id, mask);
    w.split().resume = barrier.phase + 1;
    if (Complete(w.cta, barrier)) Open(barrier, timing);
    if (b.action == Action::kArrive) return Flow::kNext;
  }
  NamedBarrier& barrier = w.cta.barriers[id];
  if (barrier.phase + 1 == w.split().resume && Complete(w.cta, barrier)) {
    Open(barrier, timing);
  }
  if (barrier.phase + 1 != w.split().resume) {
    WriteResult(w, b, mask, barrier);
    if (timing) timing->Pass(&barrier, w, true);
    Notify(w, SyncEvent::kBarrierPass, id, mask);
    return Flow::kNext;
  }
  WaitInfo info;
  info.object = "named barrier";
  info.detail = id;
  info.describe = DescribeBarrier;
  return w.WaitOn(info);
}

// A barrier's number and number of threads, as far as the program text tells.
void CheckConstant(Decoder& d, const ptx::Operand& operand, int64_t low, int64_t high, int step) {
  if (operand.kind != ptx::Operand::Kind::kInteger) return;
  const int64_t value = d.Integer(operand);
  if (value >= low && value <= high && value % step == 0) return;
  d.Illegal(std::to_string(value) + " in '" + d.inst.Spelling() + "', which takes " +
            (step == 1 ? "a barrier from 0 to 15" : "a multiple of 32 threads up to 1024"));
}

void DecodeBarrierAs(Decoder& d, bool aligned) {
  BarrierOp b;
  d.mods.Take("cta");
  b.aligned = d.mods.Take("aligned") || aligned;
  bool reduction = d.mods.Take("red");
  std::string action = d.mods.TakeOneOf({"sync", "arrive", "popc", "and", "or"});
  size_t next = 0;
  b.action = action == "arrive" ? Action::kArrive
             : action == "popc" ? Action::kRedPopc
             : action == "and"  ? Action::kRedAnd
             : action == "or"   ? Action::kRedOr
                                : Action::kSync;
  if (reduction) {
    Type type = d.mods.TakeType();
    if (type != (b.action == Action::kRedPopc ? Type::kU32 : Type::kPred)) {
      d.Illegal("'" + d.inst.Spelling() + "': .popc gives .u32, .and and .or give .pred");
    }
    const ptx::Operand& result = d.operand(next++);
    b.result =
        type == Type::kPred ? d.PredicateDestination(result) : d.Destination(result, Type::kU32);
  }
  CheckConstant(d, d.operand(next), 0, 15, 1);
  b.id = d.Source(d.operand(next++), Type::kU32);
  bool more = reduction ? d.Has(next + 1) : d.Has(next);
  if (more) {
    b.counted = true;
    CheckConstant(d, d.operand(next), 32, 1024, 32);
    b.count = d.Source(d.operand(next++), Type::kU32);
  } else if (b.action == Action::kArrive) {
    d.Illegal("'" + d.inst.Spelling() + "' needs a number of threads");
  }
  if (reduction) b.predicate = d.Predicate(d.operand(next));
  if (b.action != Action::kArrive) d.op.order |= kWaits;
  d.MakeExtra<BarrierOp>(b);
  d.op.handler = Barrier;
}

void DecodeBar(Decoder& d) { DecodeBarrierAs(d, true); }
void DecodeBarrier(Decoder& d) { DecodeBarrierAs(d, false); }

// --- barrier.cluster
// ------------------------------------------------------------------------------

uint64_t LiveThreads(const Cluster& cluster) {
  uint64_t live = 0;
  for (const auto& cta : cluster.ctas) live += cta->live_threads;
  return live;
}

// The barrier opens when all threads that have not exited have arrived.
void OpenClusterIfComplete(Cluster& cluster) {
  if (cluster.barrier_arrived == 0 || cluster.barrier_arrived < LiveThreads(cluster)) return;
  cluster.barrier_arrived = 0;
  if (cluster.timing) cluster.timing->Complete(&cluster.barrier_phase, true);
  ++cluster.barrier_phase;
}

Flow ClusterArrive(Warp& w, const Op& op, uint32_t mask) {
  if (op.flags) {
    if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  }
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    if (w.cluster_arrived_phase[lane] == cluster.barrier_phase + 1) {
      Fail(w.Here(lane), "barrier",
           "barrier.cluster.arrive twice without barrier.cluster.wait in between");
    }
    w.cluster_arrived_phase[lane] = cluster.barrier_phase + 1;
  });
  Notify(w, SyncEvent::kBarrierArrive, kClusterBarrierId, mask);
  if (cluster.timing) cluster.timing->Arrive(&cluster.barrier_phase, w.Here(0));
  cluster.barrier_arrived += static_cast<uint64_t>(std::popcount(mask));
  OpenClusterIfComplete(cluster);
  return Flow::kNext;
}

Flow ClusterWait(Warp& w, const Op& op, uint32_t mask) {
  if (op.flags) {
    if (Flow flow = w.Align(mask); flow != Flow::kNext) return flow;
  }
  Cluster& cluster = w.cta.cluster;
  OpenClusterIfComplete(cluster);
  bool open = true;
  ForEachLane(mask, [&](int lane) {
    if (w.cluster_arrived_phase[lane] == 0) {
      Fail(w.Here(lane), "barrier", "barrier.cluster.wait without barrier.cluster.arrive");
    }
    open &= w.cluster_arrived_phase[lane] <= cluster.barrier_phase;
  });
  if (open) {
    if (cluster.timing) cluster.timing->Pass(&cluster.barrier_phase, w, true);
    Notify(w, SyncEvent::kBarrierPass, kClusterBarrierId, mask);
    ForEachLane(mask, [&](int lane) { w.cluster_arrived_phase[lane] = 0; });
    return Flow::kNext;
  }
  WaitInfo info;
  info.object = "barrier.cluster";
  return w.WaitOn(info);
}

template <Handler kHandler>
void DecodeCluster(Decoder& d) {
  d.op.flags = d.mods.Take("aligned");
  d.op.order = kClusterScope;
  if (d.mods.TakeOneOf({"release", "relaxed", "acquire"}) == "relaxed") d.op.order |= kRelaxed;
  d.op.handler = kHandler;
}

}  // namespace

void RegisterBarriers() {
  FamilyRegistry::Add("bar", DecodeBar);
  FamilyRegistry::Add("barrier", DecodeBarrier);
  FamilyRegistry::Add("barrier.cluster.arrive", DecodeCluster<ClusterArrive>);
  FamilyRegistry::Add("barrier.cluster.wait", DecodeCluster<ClusterWait>);
}

}  // namespace tilelang::emulator
