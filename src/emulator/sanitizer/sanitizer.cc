#include "emulator/sanitizer/sanitizer.h"

#include <algorithm>
#include <cstdio>

namespace tilelang::emulator {
namespace {

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llX", static_cast<unsigned long long>(value));
  return text;
}

// Returns advice on how to order the later access after a step of this actor.
const char* Advice(ActorKind kind, HazardKind hazard) {
  switch (kind) {
    case ActorKind::kWarp:
      return "put a barrier between them (bar.sync, or an arrival at an mbarrier and a wait)";
    case ActorKind::kTransactions:
      return "wait for the mbarrier on which the bulk copy completes first";
    case ActorKind::kPipe:
      return hazard == HazardKind::kWriteAfterRead
                 ? "the tensor core may still read it: let tcgen05.commit arrive at an mbarrier, "
                   "and wait for that before you reuse it"
                 : "the tensor core may not have completed: let tcgen05.commit arrive at an "
                   "mbarrier, and wait for that first";
    case ActorKind::kBulkGroup:
      return "the bulk store may still read it: execute cp.async.bulk.wait_group.read in the "
             "storing thread, and then a barrier";
    case ActorKind::kBulkWrite:
      return "the bulk store may not have written it: execute cp.async.bulk.wait_group (without "
             ".read) in the storing thread, and then a barrier";
    case ActorKind::kCopyGroup:
      return "wait by cp.async.wait_group (or by cp.async.mbarrier.arrive and its mbarrier) in the "
             "copying thread, and then execute a barrier";
    case ActorKind::kTensorAlloc:
      return "put a barrier after the allocation";
    case ActorKind::kTensorLoad:
      return "execute tcgen05.wait::ld in the loading warp, and then a barrier or an mbarrier that "
             "the writer waits for";
    case ActorKind::kTensorStore:
      return "execute tcgen05.wait::st in the storing warp, and then a barrier or an mbarrier that "
             "the reader waits for";
    case ActorKind::kWarpgroup:
      return "wgmma may still read it: execute wgmma.commit_group and wgmma.wait_group in the "
             "warpgroup, and then a barrier or an mbarrier that the writer waits for";
    case ActorKind::kAsyncStore:
      return "acquire the value that it released, or end the kernel first";
    case ActorKind::kGrid:
      return "execute griddepcontrol.wait before the access";
  }
  return "";
}

const char* RelationOf(HazardKind kind, ActorKind earlier) {
  switch (kind) {
    case HazardKind::kWriteAfterRead:
      return earlier == ActorKind::kWarp ? "which was read" : "which is still being read";
    case HazardKind::kWriteAfterWrite:
      return earlier == ActorKind::kTensorAlloc ? "which was allocated" : "which is also written";
    default:
      return earlier == ActorKind::kTensorAlloc ? "which was allocated" : "which was written";
  }
}

// Adds the pending knowledge of a warp to a phase of a barrier, or of a phase to a warp.
template <typename From, typename To>
void JoinPending(const From& from, To* to) {
  if (!from.has_pending) return;
  for (int scope = 0; scope < kScopes; ++scope) to->pending[scope].Join(from.pending[scope]);
  to->has_pending = true;
}

}  // namespace

Sanitizer::Sanitizer(Cluster& cluster) : cluster_(cluster), grid_(cluster.grid_shadow) {
  if (cluster.launch.previous) NewActor(ActorKind::kGrid, "the previous grid");
}

ActorId Sanitizer::NewActor(ActorKind kind, std::string name) {
  actors_.push_back({kind, std::move(name)});
  return static_cast<ActorId>(actors_.size() - 1);
}

Sanitizer::WarpState& Sanitizer::StateOf(const Issuer& issuer) {
  const size_t index = issuer.cta->rank * kMaxWarps + issuer.warp;
  if (index >= warps_.size()) warps_.resize(index + 1);
  WarpState& state = warps_[index];
  if (state.actor == kNoActor) {
    std::string name = "warp " + std::to_string(issuer.warp);
    if (issuer.cta->rank != 0) name += " of CTA rank " + std::to_string(issuer.cta->rank);
    state.actor = NewActor(ActorKind::kWarp, name);
    state.knowledge.happened.Raise(state.actor, 1);
  }
  return state;
}

void Sanitizer::Advance(WarpState& state) {
  VectorClock& happened = state.knowledge.happened;
  happened.Raise(state.actor, happened.At(state.actor) + 1);
}

void Sanitizer::Learn(WarpState& state, const Issuer& issuer, const Knowledge& from) {
  state.knowledge.Join(from);
  // All lanes that acquire here know what the warp's own lanes had released until then.
  const uint32_t own = from.happened.At(state.actor);
  ForEachLane(issuer.cta->warps[issuer.warp]->split().mask,
              [&](int lane) { state.met[lane] = std::max(state.met[lane], own); });
}

void Sanitizer::OnWarpSync(const Issuer& issuer, uint32_t lanes) {
  WarpState& state = StateOf(issuer);
  if (!state.meets) return;
  const uint32_t step = state.knowledge.happened.At(state.actor);
  ForEachLane(lanes, [&](int lane) { state.met[lane] = step; });
  state.meets = lanes != issuer.cta->warps[issuer.warp]->live;
  Advance(state);
}

void Sanitizer::Learn(const Issuer& issuer, ActorId actor, uint32_t step) {
  WarpState& state = StateOf(issuer);
  const bool relaxed = issuer.op->order & kRelaxed;
  (relaxed ? state.pending[0] : state.knowledge).happened.Raise(actor, step);
  state.has_pending |= relaxed;
}

void Sanitizer::LearnTensor(const Issuer& issuer, ActorId actor, uint32_t step) {
  Knowledge& knowledge = Of(issuer);
  knowledge.happened.Raise(actor, step);
  knowledge.tensor.Raise(actor, step);
  knowledge.fenced.Raise(actor, step);
  actors_[actor].waited = std::max(actors_[actor].waited, step);
}

void Sanitizer::TensorFenceBefore(const Issuer& issuer) {
  Knowledge& knowledge = Of(issuer);
  knowledge.passed.Join(knowledge.tensor);
}

void Sanitizer::TensorFenceAfter(const Issuer& issuer) {
  Knowledge& knowledge = Of(issuer);
  knowledge.tensor.Join(knowledge.passed);
}

void Sanitizer::InitFence(const Issuer& issuer) {
  WarpState& state = StateOf(issuer);
  const uint32_t step = state.knowledge.happened.At(state.actor);
  state.knowledge.fenced.Raise(state.actor, step);
  for (const Scope scope : {Scope::kCta, Scope::kCluster}) {
    state.knowledge.performed[static_cast<int>(scope)].happened.Raise(state.actor, step);
  }
  Advance(state);
}

std::shared_ptr<const Knowledge> Sanitizer::Snapshot(const Issuer& issuer) {
  WarpState& state = StateOf(issuer);
  auto copy = std::make_shared<Knowledge>(state.knowledge);
  Advance(state);
  return copy;
}

PhaseWait Sanitizer::WaitBy(const Issuer& issuer) {
  const WarpState& state = StateOf(issuer);
  return {issuer, state.actor, state.knowledge.happened.At(state.actor)};
}

void Sanitizer::CheckPhaseWaits(const Issuer& issuer, const std::vector<PhaseWait>& waits,
                                const VectorClock& known, uint64_t address) {
  for (const PhaseWait& wait : waits) {
    if (known.At(wait.actor) >= wait.step) continue;
    const uint32_t op = IndexOf(wait.issuer);
    Epoch epoch;
    epoch.actor = wait.actor;
    epoch.op = op;
    Found(issuer, "missed-phase",
          "completes a phase of the mbarrier at " + Hex(address) +
              ", and nothing orders this after the wait " + Describe(epoch) +
              " for the previous phase. If that thread is late, it misses both phases and waits "
              "forever. Let it arrive at a barrier or mbarrier after its wait, and wait for that "
              "before this arrival",
          address, "shared memory", op);
  }
}

void Sanitizer::RememberStore(const Issuer& issuer, ActorId actor, uint32_t step) {
  bulk_stores_[actor] = {issuer, step};
}

void Sanitizer::OnExit(const Cta& cta) {
  for (const auto& [actor, store] : bulk_stores_) {
    if (store.issuer.cta != &cta || Of(store.issuer).happened.At(actor) >= store.step) continue;
    Found(store.issuer, "store-at-exit",
          "the CTA exits while this bulk store may still read its shared memory; "
          "cp.async.bulk.wait_group.read 0 in the storing thread before it exits",
          0, "shared memory", kNoOp);
  }
  ended_.insert(cta.rank);
  // Some thread of the CTA ends after it, whether it may see its effects or not.
  auto known = [&](ActorId actor, uint32_t step) {
    const size_t first = size_t{cta.rank} * kMaxWarps;
    for (size_t w = first; w < std::min(first + kMaxWarps, warps_.size()); ++w) {
      const Knowledge& knowledge = warps_[w].knowledge;
      if (std::max(knowledge.happened.At(actor), knowledge.executed.At(actor)) >= step) return true;
    }
    return false;
  };
  for (const auto& [key, remote] : remote_) {
    if (key.first == cta.rank && !known(key.second, remote.step)) FoundExit(remote.issuer, cta);
  }
}

void Sanitizer::MustEndBefore(const Cta& owner, const Step& step) {
  if (ended_.count(owner.rank) != 0) return FoundExit(step.issuer, owner);
  Remote& last = remote_[{owner.rank, step.actor}];
  if (step.step >= last.step) last = {step.issuer, step.step};
}

void Sanitizer::FoundExit(const Issuer& issuer, const Cta& owner) {
  Found(issuer, "missing-wait",
        "CTA " + std::to_string(owner.rank) +
            " of the cluster may exit before this access of its shared memory is over (PTX ISA: it "
            "must not exit while others access it); barrier.cluster.arrive and wait in all threads "
            "before they exit",
        0, "shared memory", kNoOp);
}

void Sanitizer::ProxyFence(const Issuer& issuer) {
  WarpState& state = StateOf(issuer);
  state.knowledge.fenced.Join(state.knowledge.happened);
  Advance(state);  // later writes of this warp are not covered by the fence
}

void Sanitizer::OnBarrier(SyncEvent event, uint64_t id, const Issuer& issuer) {
  const bool of_cluster = id == kClusterBarrierId;
  auto& phases = barriers_[{of_cluster ? 0 : issuer.cta->rank, id}];
  uint64_t& arrived = StateOf(issuer).arrived[id];
  if (event == SyncEvent::kBarrierPass) {
    const BarrierPhase& phase = phases[arrived % 2];
    Acquire(issuer, phase.gathered);
    JoinPending(phase, &StateOf(issuer));
    return;
  }
  arrived = of_cluster ? cluster_.barrier_phase : issuer.cta->barriers[id].phase;
  BarrierPhase& phase = phases[arrived % 2];
  if (phase.phase != arrived) {
    phase.phase = arrived;
    phase.gathered.Clear();
    phase.pending.fill({});
    phase.has_pending = false;
  }
  JoinPending(StateOf(issuer), &phase);
  Release(issuer, &phase.gathered);
}

Sanitizer::Step Sanitizer::ThreadStep(const Issuer& issuer, const char* what, bool write) {
  WarpState& state = StateOf(issuer);
  Step step;
  step.issuer = issuer;
  step.what = what;
  step.actor = state.actor;
  step.step = state.knowledge.happened.At(state.actor);
  step.in_order_with = state.actor;
  step.write = write;
  step.generic = true;
  state.meets = true;
  if (!(issuer.op->order & kCollective)) step.met = state.met.data();
  step.strong = issuer.op->order & kStrong;
  return step;
}

void Sanitizer::ThreadShared(const Access& access) {
  const uint32_t offset = static_cast<uint32_t>(access.address);
  const bool write = access.kind != AccessKind::kRead;
  const bool atomic = access.kind == AccessKind::kAtomic;
  Step step = ThreadStep(access.issuer, atomic ? "changes" : write ? "writes" : "reads", write);
  step.strong |= atomic;
  if (!step.strong) {
    Touch touch = TouchOf(step, access.owner);
    touch.values = access.value;
    touch.memory = access.owner->shared.at(offset);
    return TouchShared(ShadowOf(*access.owner), *access.owner, offset, access.bytes, touch, step);
  }
  const uint64_t at = uint64_t{access.owner->rank} << 32 | offset;
  if (atomic || !write) Receive(access.issuer, shared_locations_, at, access.bytes);
  Shared(*access.owner, offset, access.bytes, step);
  if (write) Publish(access.issuer, shared_locations_, at, access.bytes, !atomic);
}

void Sanitizer::WarpShared(const WarpAccess& access) {
  const bool write = access.kind == AccessKind::kWrite;
  const Cta& owner = *access.issuer.cta;
  auto offset_of = [&](int lane) {
    return static_cast<uint32_t>(access.addresses[lane]) & 0xFFFFFF;
  };
  if (access.issuer.op->order & kStrong) {
    Access one{Storage::kShared, access.kind, Proxy::kGeneric, "thread",
               &owner,           0,           access.bytes,    access.issuer};
    ForEachLane(access.mask, [&](int lane) {
      one.issuer.lane = lane;
      one.address = offset_of(lane);
      ThreadShared(one);
    });
    return;
  }
  Step step = ThreadStep(access.issuer, write ? "writes" : "reads", write);
  SharedShadow& shadow = ShadowOf(owner);
  Touch touch = TouchOf(step, &owner);
  touch.values = access.values;
  if (access.contiguous) {
    uint32_t at = 0;
    touch.memory = owner.shared.at(offset_of(0));
    const Hazard hazard = shadow.TouchLanes(offset_of(0), access.bytes, touch, &at);
    if (hazard.kind == HazardKind::kNone) return;
    step.issuer.lane = static_cast<int>((at - offset_of(0)) / access.bytes);
    const uint32_t address = owner.shared_base() + at;
    return Report(hazard, step, "shared memory at " + Hex(address), address, "shared memory");
  }
  if (!write) Remember(access, step);
  ForEachLane(access.mask, [&](int lane) {
    step.issuer.lane = lane;
    if (touch.met) touch.self.lane = static_cast<uint8_t>(lane);
    if (access.values) touch.values = access.values + size_t{access.bytes} * lane;
    touch.memory = owner.shared.at(offset_of(lane));
    TouchShared(shadow, owner, offset_of(lane), access.bytes, touch, step);
  });
}

SharedShadow& Sanitizer::ShadowOf(const Cta& owner) {
  return shared_.try_emplace(owner.rank, owner.shared.size()).first->second;
}

Touch Sanitizer::TouchOf(const Step& step, const Cta* owner) {
  Touch touch;
  touch.self.step = step.step;
  touch.self.actor = step.actor;
  if (step.generic) touch.self.bytes |= Epoch::kGeneric;
  if (step.strong) touch.self.bytes |= Epoch::kStrong;
  if (step.generic && owner == step.issuer.cta) touch.self.bytes |= Epoch::kOwn;
  if (actors_[step.actor].kind == ActorKind::kWarp) touch.met = step.met;
  if (touch.met && step.issuer.lane >= 0) touch.self.lane = static_cast<uint8_t>(step.issuer.lane);
  if (step.issuer.op) touch.self.op = IndexOf(step.issuer);
  touch.knowledge = step.knowledge ? step.knowledge : &Of(step.issuer);
  touch.order = &touch.knowledge->happened;
  touch.in_order_with = step.in_order_with;
  touch.write = step.write;
  return touch;
}

void Sanitizer::Shared(const Cta& owner, uint32_t offset, uint32_t bytes, const Step& step) {
  TouchShared(ShadowOf(owner), owner, offset, bytes, TouchOf(step, &owner), step);
}

void Sanitizer::SharedUnits(const Cta& owner, const std::vector<uint32_t>& offsets, uint32_t bytes,
                            const Step& step) {
  SharedShadow& shadow = ShadowOf(owner);
  const Touch touch = TouchOf(step, &owner);
  for (uint32_t offset : offsets) TouchShared(shadow, owner, offset, bytes, touch, step);
}

void Sanitizer::TouchShared(SharedShadow& shadow, const Cta& owner, uint32_t offset, uint32_t bytes,
                            const Touch& touch, const Step& step) {
  if (&owner != step.issuer.cta) MustEndBefore(owner, step);
  uint32_t at = offset;
  Hazard hazard = shadow.TouchRange(offset, bytes, touch, &at);
  if (hazard.kind == HazardKind::kNone) return;
  hazard.together = ReadTogether(hazard, step, owner, at);
  const uint32_t address = owner.shared_base() + at;
  Report(hazard, step, "shared memory at " + Hex(address), address, "shared memory");
}

void Sanitizer::Remember(const WarpAccess& load, const Step& step) {
  WarpState& state = StateOf(load.issuer);
  WarpLoad& last = state.loads[state.next_load++ % state.loads.size()];
  last.step = step.step;
  last.op = IndexOf(load.issuer);
  last.mask = load.mask;
  last.bytes = load.bytes;
  last.rank = load.issuer.cta->rank;
  ForEachLane(load.mask, [&](int lane) {
    last.offsets[lane] = static_cast<uint32_t>(load.addresses[lane]) & 0xFFFFFF;
  });
}

bool Sanitizer::ReadTogether(const Hazard& hazard, const Step& step, const Cta& owner,
                             uint32_t offset) {
  const bool of_lanes = hazard.kind == HazardKind::kWriteAfterRead && step.issuer.lane >= 0 &&
                        hazard.earlier.actor == step.in_order_with &&
                        hazard.earlier.lane == kSeveralLanes;
  if (!of_lanes) return false;
  const auto& loads = StateOf(step.issuer).loads;
  return std::any_of(loads.begin(), loads.end(), [&](const WarpLoad& load) {
    return load.rank == owner.rank && load.Covers(hazard.earlier, step.issuer.lane, offset);
  });
}

void Sanitizer::Tensor(const Cta& owner, int lane, int lanes, int column, int columns,
                       const Step& step) {
  int at_lane = lane;
  int at_column = column;
  Touch touch = TouchOf(step, nullptr);
  touch.order = &touch.knowledge->tensor;
  touch.self.bytes |= Epoch::kOwn;
  Hazard hazard =
      tensor_[owner.rank].TouchCells(lane, lanes, column, columns, touch, &at_lane, &at_column);
  if (hazard.kind == HazardKind::kNone) return;
  hazard.tensor = true;
  Report(hazard, step, DescribeTmem(at_lane, at_column),
         static_cast<uint64_t>(at_lane) << 16 | static_cast<uint64_t>(at_column), "tensor memory");
}

void Sanitizer::ForgetTensor(const Cta& owner, int column, int columns) {
  tensor_[owner.rank].Forget(column, columns);
}

uint32_t Sanitizer::IndexOf(const Issuer& issuer) const {
  return static_cast<uint32_t>(issuer.op - cluster_.kernel().code.data());
}

std::string Sanitizer::Describe(const Epoch& epoch) const {
  const Kernel& kernel = cluster_.kernel();
  std::string text = "by " + actors_[epoch.actor].name;
  if (epoch.lane < kSeveralLanes) text += ", lane " + std::to_string(epoch.lane);
  if (epoch.op < kernel.code.size()) {
    const SourceLine& line = kernel.sources[kernel.code[epoch.op].source];
    text += " at PTX line " + std::to_string(line.ptx_line);
    const int source = line.location.line;
    if (source > 0) text += " (source line " + std::to_string(source) + ")";
  }
  return text;
}

const char* Sanitizer::MissingFence(const Hazard& hazard, const Step& step) {
  if (!hazard.tensor) return nullptr;
  const Knowledge& known = step.knowledge ? *step.knowledge : Of(step.issuer);
  const auto knows = [&](const VectorClock& clock) {
    return clock.At(hazard.earlier.actor) >= hazard.earlier.step;
  };
  if (knows(known.passed)) return "tcgen05.fence::after_thread_sync after the synchronization";
  if (knows(known.happened)) return "tcgen05.fence::before_thread_sync before the synchronization";
  return nullptr;
}

void Sanitizer::Report(const Hazard& hazard, const Step& step, const std::string& place,
                       uint64_t address, const char* buffer) {
  const ActorKind earlier = actors_[hazard.earlier.actor].kind;
  const std::string who = Describe(hazard.earlier);
  const auto found = [&](const char* kind, const std::string& text) {
    Found(step.issuer, kind, std::string(step.what) + " " + place + ", " + text, address, buffer,
          hazard.earlier.op);
  };
  if (hazard.kind == HazardKind::kProxy && step.on_mbarrier) {
    return found("missing-mbarrier-fence",
                 "which was initialised " + who +
                     ", without fence.mbarrier_init or fence.proxy.async there before the barrier");
  }
  if (hazard.kind == HazardKind::kProxy) {
    return found("missing-proxy-fence",
                 "which was written through the generic proxy " + who +
                     ", without fence.proxy.async by the writer before the barrier");
  }
  const std::string relation = std::string(RelationOf(hazard.kind, earlier)) + " " + who;
  if (const char* fence = MissingFence(hazard, step)) {
    const std::string what = std::string(step.what) + " " + place + ", " + relation;
    return ReportFence(hazard, step, what, fence, address);
  }
  if (IsOver(hazard, step.knowledge ? *step.knowledge : Of(step.issuer))) {
    return found("relaxed-order",
                 relation +
                     "; the two are synchronized by .relaxed operations, which order nothing "
                     "in the PTX memory model: .release to arrive and .acquire to wait");
  }
  if (hazard.together) {
    return found("lanes-in-step",
                 relation +
                     ", by one instruction that all these lanes execute in step; the PTX ISA "
                     "promises no such order: put bar.warp.sync (__syncwarp) before the write");
  }
  found(earlier == ActorKind::kWarp ? "race" : "missing-wait",
        relation + ", and nothing orders the two; " +
            (hazard.earlier.actor == step.in_order_with
                 ? "put bar.warp.sync (__syncwarp) between accesses by lanes of one warp"
                 : Advice(earlier, hazard.kind)));
}

void Sanitizer::ReportFence(const Hazard& hazard, const Step& step, const std::string& what,
                            const char* fence, uint64_t address) {
  const ActorInfo& earlier = actors_[hazard.earlier.actor];
  const auto found = [&](const char* kind, const std::string& text) {
    Found(step.issuer, kind, what + text, address, "tensor memory", hazard.earlier.op);
  };
  if (earlier.kind == ActorKind::kTensorLoad && earlier.waited < hazard.earlier.step) {
    return found("ld-before-wait",
                 "; all registers of the load had been read before they synchronized, but the PTX "
                 "ISA demands tcgen05.wait::ld in the loading warp");
  }
  // Allocation and deallocation are synchronous operations, which the fences need not order; the
  // ISA's own examples have them nevertheless.
  const bool customary = earlier.kind == ActorKind::kTensorAlloc || step.frees;
  found("missing-tcgen05-fence",
        std::string("; they are synchronized, but ") +
            (customary ? "it is customary to have " : "tcgen05 operations of two threads need ") +
            fence);
}

void Sanitizer::Found(const Issuer& issuer, const std::string& kind, const std::string& message,
                      uint64_t address, const std::string& buffer, uint32_t earlier) {
  EmulatorError error(kind, message, WhereOf(issuer));
  error.where.has_address = true;
  error.where.address = address;
  error.where.buffer = buffer;
  if (earlier != kNoOp) error.earlier = PlaceOf(cluster_.kernel(), earlier);
  cluster_.launch.Report(error);
}

}  // namespace tilelang::emulator
