#include "emulator/core/machine.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/core/algebra.h"
#include "emulator/core/call_stack.h"

namespace tilelang::emulator {
namespace {

uint32_t Flat(const Dim3& id, const Dim3& extent) {
  return (id.z * extent.y + id.y) * extent.x + id.x;
}

Dim3 Unflatten(uint64_t index, const Dim3& extent) {
  return {static_cast<uint32_t>(index % extent.x),
          static_cast<uint32_t>(index / extent.x % extent.y),
          static_cast<uint32_t>(index / extent.x / extent.y)};
}

uint32_t Component(const Dim3& value, Special special, Special x) {
  int i = static_cast<int>(special) - static_cast<int>(x);
  return i == 0 ? value.x : i == 1 ? value.y : value.z;
}

uint32_t LaneMask(Special special, int lane) {
  uint32_t bit = 1u << lane, below = bit - 1;
  switch (special) {
    case Special::kLanemaskEq:
      return bit;
    case Special::kLanemaskLe:
      return below | bit;
    case Special::kLanemaskLt:
      return below;
    case Special::kLanemaskGe:
      return ~below;
    default:
      return ~(below | bit);
  }
}

// The system's part included.
uint64_t SharedBytes(const Cta& cta) {
  return cta.cluster.kernel().dynamic_shared_offset + cta.cluster.launch.options.dynamic_shared;
}

uint64_t CtaValue(const Cta& cta, Special special) {
  const Cluster& cluster = cta.cluster;
  const LaunchOptions& o = cluster.launch.options;
  Dim3 clusters{o.grid.x / o.cluster.x, o.grid.y / o.cluster.y, o.grid.z / o.cluster.z};
  Dim3 in_cluster = Unflatten(cta.rank, o.cluster);
  switch (special) {
    case Special::kNtidX:
    case Special::kNtidY:
    case Special::kNtidZ:
      return Component(o.block, special, Special::kNtidX);
    case Special::kCtaidX:
    case Special::kCtaidY:
    case Special::kCtaidZ:
      return Component(cta.id, special, Special::kCtaidX);
    case Special::kNctaidX:
    case Special::kNctaidY:
    case Special::kNctaidZ:
      return Component(o.grid, special, Special::kNctaidX);
    case Special::kClusteridX:
    case Special::kClusteridY:
    case Special::kClusteridZ:
      return Component(cluster.id, special, Special::kClusteridX);
    case Special::kNclusteridX:
    case Special::kNclusteridY:
    case Special::kNclusteridZ:
      return Component(clusters, special, Special::kNclusteridX);
    case Special::kClusterCtaidX:
    case Special::kClusterCtaidY:
    case Special::kClusterCtaidZ:
      return Component(in_cluster, special, Special::kClusterCtaidX);
    case Special::kClusterNctaidX:
    case Special::kClusterNctaidY:
    case Special::kClusterNctaidZ:
      return Component(o.cluster, special, Special::kClusterNctaidX);
    case Special::kClusterCtarank:
      return cta.rank;
    case Special::kClusterNctarank:
      return o.cluster.count();
    case Special::kIsExplicitCluster:
      return o.explicit_cluster ? 1 : 0;
    case Special::kEnvreg1:
      return cluster.launch.grid_workspace >> 32;
    case Special::kEnvreg2:
      return cluster.launch.grid_workspace & 0xFFFFFFFF;
    case Special::kNwarpid:
      return (o.block.count() + kLanes - 1) / kLanes;
    case Special::kNsmid:
      return cluster.kernel().module->sms;
    case Special::kSmid:
      return cta.linear_id % cluster.kernel().module->sms;
    case Special::kDynamicSmemSize:
      return o.dynamic_shared;
    case Special::kTotalSmemSize:
      return (SharedBytes(cta) - kSharedReserved + 127) / 128 * 128;  // in units of allocation
    case Special::kAggregateSmemSize:
      return SharedBytes(cta);
    case Special::kReservedSmemEnd:
      return 288;  // as on an H200
    case Special::kReservedSmemCap:
      return kSharedReserved;
    case Special::kSharedBase:
      return cta.shared_base();
    case Special::kDynamicSharedBase:
      return cta.shared_base() + cluster.kernel().dynamic_shared_offset;
    default:
      return 0;
  }
}

uint64_t LaneValue(const Warp& warp, int lane, Special special) {
  const Dim3& block = warp.cta.cluster.launch.options.block;
  switch (special) {
    case Special::kTidX:
    case Special::kTidY:
    case Special::kTidZ:
      return Component(Unflatten(warp.index * kLanes + lane, block), special, Special::kTidX);
    case Special::kLaneid:
      return lane;
    case Special::kWarpid:
      return warp.index;
    case Special::kLanemaskEq:
    case Special::kLanemaskLe:
    case Special::kLanemaskLt:
    case Special::kLanemaskGe:
    case Special::kLanemaskGt:
      return LaneMask(special, lane);
    default:
      return CtaValue(warp.cta, special);
  }
}

void Store(Warp& warp, const SlotInit& init, int lane, uint64_t value) {
  switch (init.bits) {
    case 1:
      *warp.Reg<uint32_t>(init.slot) = value ? kAllLanes : 0;
      return;
    case 8:
      warp.Reg<uint8_t>(init.slot)[lane] = static_cast<uint8_t>(value);
      return;
    case 16:
      warp.Reg<uint16_t>(init.slot)[lane] = static_cast<uint16_t>(value);
      return;
    case 32:
      warp.Reg<uint32_t>(init.slot)[lane] = static_cast<uint32_t>(value);
      return;
    case 64:
      warp.Reg<uint64_t>(init.slot)[lane] = value;
      return;
    default:
      warp.Reg<uint64_t>(init.slot)[2 * lane] = value;
      warp.Reg<uint64_t>(init.slot)[2 * lane + 1] = 0;
  }
}

}  // namespace

Warp::Warp(Cta& cta, uint32_t index) : cta(cta), index(index) {
  const Kernel& kernel = cta.cluster.kernel();
  storage_.resize(kernel.file_bytes / 8 + 16);
  registers_ = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(storage_.data()) + 63) &
                                          ~uintptr_t{63});
  local_ = ZeroedBytes(kernel.thread_bytes() * kLanes);
  if (kernel.uses_stack) calls_ = std::make_unique<CallStack>(*this);
}

Warp::~Warp() = default;

void Warp::Reset(uint32_t lanes) {
  const Kernel& kernel = cta.cluster.kernel();
  register_checks_ = nullptr;
  const bool lints = kernel.loads_tensor_memory && cta.cluster.launch.Lint("ld-before-wait");
  if (lints || (!kernel.unwritten.empty() && cta.cluster.launch.observer)) register_checks();
  if (Algebra* algebra = cta.cluster.launch.algebra) {
    register_checks_ = algebra->MakeWarpValues(*this);
    algebra->Forget(local_.data(), kernel.thread_bytes() * kLanes);
  }
  existing = live = lanes == 32 ? kAllLanes : (1u << lanes) - 1;
  std::memset(registers_, 0, kernel.file_bytes);
  for (const SlotInit& init : kernel.constants) {
    for (int lane = 0; lane < kLanes; ++lane) Store(*this, init, lane, init.value);
  }
  for (const SlotInit& init : kernel.specials) {
    for (int lane = 0; lane < kLanes; ++lane) {
      Store(*this, init, lane, LaneValue(*this, lane, init.special) + init.value);
    }
  }
  for (const UnwrittenRegister& each : kernel.unwritten) {
    std::memset(registers_ + each.slot, 0xFF, size_t{4} * static_cast<size_t>(each.bits));
  }
  carry = 0;
  changes = polls = news = 0;
  std::fill_n(cluster_arrived_phase, kLanes, 0);
  splits_.assign(1, Split{});
  splits_[0].mask = live;
  current_ = 0;
  if (calls_) calls_->Reset();
}

uint8_t* Warp::local(int lane) {
  return local_.data() + cta.cluster.kernel().thread_bytes() * lane;
}

uint64_t Warp::local_bytes(int lane) const {
  return calls_ ? calls_->top(lane) - kLocalBase : cta.cluster.kernel().local_bytes;
}

uint32_t Warp::Pc() const { return static_cast<uint32_t>(op - cta.cluster.kernel().code.data()); }

Flow Warp::Diverge(uint32_t taken, uint32_t pc) {
  Split& here = split();
  if (taken == here.mask) {
    here.pc = pc;
    return Flow::kJump;
  }
  here.pc = Pc() + 1;
  if (taken != 0 && here.pc != pc) SplitOff(taken, pc);
  return Flow::kJump;
}

void Warp::SplitOff(uint32_t lanes, uint32_t pc, int deeper) {
  Split other;
  other.pc = pc;
  other.mask = lanes;
  other.depth = split().depth + deeper;
  other.last_run = split().last_run;
  other.poll_pc = split().poll_pc;
  other.poll = split().poll;
  split().mask &= ~lanes;
  splits_.push_back(other);
}

Flow Warp::Polls(const WaitInfo& info) {
  Split& here = split();
  const bool again =
      here.poll_pc == Pc() && here.poll.address == info.address && here.poll.detail == info.detail;
  ++polls;
  news += again ? 0 : 1;
  here.poll_pc = Pc();
  here.poll = info;
  return Flow::kYield;
}

Flow Warp::Exit(uint32_t lanes) {
  Split& here = split();
  live &= ~lanes;
  here.mask &= ~lanes;
  here.pc = Pc() + 1;
  cta.live_threads -= static_cast<uint32_t>(std::popcount(lanes));
  // barrier.cluster waits for the threads that are left; those that exit have had their say.
  ForEachLane(lanes, [&](int lane) {
    Cluster& cluster = cta.cluster;
    if (cluster_arrived_phase[lane] == cluster.barrier_phase + 1) --cluster.barrier_arrived;
  });
  return Flow::kJump;
}

bool Warp::ExpireTimedWaits() {
  bool any = false;
  for (Split& split : splits_) {
    if (!split.waiting || !split.wait.timed) continue;
    split.wait.expired = true;
    any = true;
  }
  return any;
}

bool Warp::Waits() const {
  return std::all_of(splits_.begin(), splits_.end(),
                     [](const Split& split) { return split.waiting; });
}

Flow Warp::Align(uint32_t mask) {
  if (!Converged()) {
    WaitInfo info;
    info.object = "convergence of its warp (.aligned instruction)";
    return WaitOn(info);
  }
  if (mask != live) {
    Fail(Here(std::countr_zero(live & ~mask)), "divergence",
         "an .aligned instruction is guarded by a predicate that differs within the warp");
  }
  Met(mask);
  return Flow::kNext;
}

void Warp::Met(uint32_t lanes) {
  AccessObserver* observer = cta.cluster.launch.observer;
  if (observer) observer->OnSync(SyncEvent::kWarpSync, lanes, Here(-1));
}

Cta::Cta(Cluster& cluster, uint32_t rank) : cluster(cluster), rank(rank) {
  uint64_t threads = cluster.launch.options.block.count();
  for (uint32_t i = 0; i * kLanes < threads; ++i) {
    warps.push_back(std::make_unique<Warp>(*this, i));
  }
}

void Cta::Reset() {
  const Dim3& block = cluster.launch.options.block;
  const LaunchOptions& o = cluster.launch.options;
  Dim3 in_cluster = Unflatten(rank, o.cluster);
  id = {cluster.id.x * o.cluster.x + in_cluster.x, cluster.id.y * o.cluster.y + in_cluster.y,
        cluster.id.z * o.cluster.z + in_cluster.z};
  linear_id = Flat(id, o.grid);
  live_threads = static_cast<uint32_t>(block.count());
  shared.Reset(cluster.kernel().dynamic_shared_offset - kSharedReserved + o.dynamic_shared);
  if (cluster.launch.algebra) cluster.launch.algebra->Forget(shared.at(0), shared.size());
  for (NamedBarrier& barrier : barriers) barrier = NamedBarrier{};
  for (auto& warp : warps) {
    warp->Reset(std::min<uint32_t>(kLanes, live_threads - warp->index * kLanes));
  }
  async = MakeCtaAsyncState(*this);
}

Cluster::Cluster(Launch& launch) : launch(launch), counts(launch.kernel.code.size()) {
  for (uint32_t rank = 0; rank < launch.options.cluster.count(); ++rank) {
    ctas.push_back(std::make_unique<Cta>(*this, rank));
  }
}

void Cluster::Reset(uint64_t index) {
  const LaunchOptions& o = launch.options;
  Dim3 clusters{o.grid.x / o.cluster.x, o.grid.y / o.cluster.y, o.grid.z / o.cluster.z};
  linear_id = index;
  id = Unflatten(index, clusters);
  engines.reset();
  barrier_arrived = barrier_phase = 0;
  for (auto& cta : ctas) cta->Reset();
  engines = MakeAsyncEngines(*this);
}

// --- reports ----------------------------------------------------------------------------------

Where PlaceOf(const Kernel& kernel, uint32_t op) {
  const SourceLine& source = kernel.sources[kernel.code[op].source];
  Where where = kernel.module->WhereIs(source.ptx_line, source.location, source.exact_location);
  where.kernel = kernel.name;
  return where;
}

Where WhereOf(const Issuer& issuer) {
  Where where;
  if (!issuer.cta) return where;
  const Kernel& kernel = issuer.cta->cluster.kernel();
  if (issuer.op) where = PlaceOf(kernel, static_cast<uint32_t>(issuer.op - kernel.code.data()));
  where.kernel = kernel.name;
  where.in_cta = true;
  where.cta = issuer.cta->id;
  where.warp = issuer.warp;
  where.lane = issuer.lane;
  return where;
}

void Fail(const Issuer& issuer, const std::string& kind, const std::string& message) {
  throw EmulatorError(kind, message, WhereOf(issuer));
}

void Fail(const Issuer& issuer, const std::string& kind, const std::string& message,
          uint64_t address, const std::string& buffer) {
  Where where = WhereOf(issuer);
  where.has_address = true;
  where.address = address;
  where.buffer = buffer;
  throw EmulatorError(kind, message, where);
}

void Report(const Issuer& issuer, const std::string& kind, const std::string& message) {
  issuer.cta->cluster.launch.Report(EmulatorError(kind, message, WhereOf(issuer)));
}

namespace {

void WarnAt(const Issuer& issuer, const std::string& kind, const std::string& message,
            const Where& where) {
  Launch& launch = issuer.cta->cluster.launch;
  if (launch.Suppresses(EmulatorError(kind, message, where))) return;
  std::lock_guard<std::mutex> lock(launch.mutex);
  auto [entry, inserted] = launch.warnings.try_emplace({kind, where.ptx_line});
  if (inserted) {
    entry->second = {kind, message, where, 1};
  } else {
    ++entry->second.count;
  }
}

}  // namespace

void Warn(const Issuer& issuer, const std::string& kind, const std::string& message) {
  WarnAt(issuer, kind, message, WhereOf(issuer));
}

void WarnMemory(const Issuer& issuer, bool shared, const std::string& message, uint64_t address) {
  Where where = WhereOf(issuer);
  where.has_address = shared;  // whose tile Python names
  where.address = address;
  WarnAt(issuer, shared ? "uninitialised-shared" : "uninitialised-global", message, where);
}

}  // namespace tilelang::emulator
