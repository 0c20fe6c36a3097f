#include "emulator/async/bulk_transfer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "emulator/core/unwritten_marks.h"
#include "emulator/sanitizer/undefined_values.h"

namespace tilelang::emulator {

Route TakeRoute(Decoder& d, TransferForm& form, bool reduces, const std::string& instruction) {
  const Space to = d.mods.TakeSpace();
  const Space from = d.mods.TakeSpace();
  const bool on_barrier = d.mods.Take("mbarrier::complete_tx::bytes");
  const bool in_group = d.mods.Take("bulk_group");
  form.multicast = d.mods.Take("multicast::cluster");
  d.mods.Take("L2::cache_hint");
  form.reduces = reduces;
  if (reduces) {
    const auto reduce =
        ParseReduceOp(d.mods.TakeOneOf({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
    if (!reduce) d.Illegal(instruction + " needs an operation");
    form.reduce = *reduce;
  }
  const bool from_shared = from == Space::kShared;
  if (to == Space::kShared && from == Space::kGlobal && on_barrier && !reduces) return Route::kLoad;
  if (to == Space::kShared && from_shared && on_barrier && !form.multicast) return Route::kSend;
  if (to == Space::kGlobal && from_shared && in_group && !form.multicast) return Route::kStore;
  d.Unsupported("this direction or completion mechanism of " + instruction);
}

std::vector<LoadTarget> LoadTargets(Warp& w, int lane, uint32_t destination,
                                    const BarrierRef& barrier, bool multicast, uint32_t cta_mask) {
  Cluster& cluster = w.cta.cluster;
  const uint32_t offset = destination & 0xFFFFFF;
  if (!multicast) {
    Cta* owner = cluster.SharedOwner(destination);
    if (!owner) {
      Fail(w.Here(lane), "out-of-bounds",
           "the destination is not in the shared memory of a CTA of the cluster", destination,
           "shared memory");
    }
    return {{owner, offset, barrier, 0}};
  }
  std::vector<LoadTarget> targets;
  if (cta_mask == 0 || (cta_mask >> cluster.ctas.size()) != 0) {
    Fail(w.Here(lane), "illegal-operand",
         "the CTA mask of a multicast must name CTAs of the cluster, which has " +
             std::to_string(cluster.ctas.size()));
  }
  ForEachLane(cta_mask, [&](int rank) {
    Cta* cta = cluster.ctas[rank].get();
    targets.push_back({cta, offset, {cta, barrier.offset}, 0});
  });
  return targets;
}

void CheckAligned(const Issuer& issuer, const char* what, uint64_t address, uint32_t align) {
  if (address % align == 0) return;
  Fail(issuer, "misaligned", std::string(what) + " must be a multiple of " + std::to_string(align),
       address);
}

namespace {

constexpr uint32_t kUnitBytes = 16;
constexpr uint32_t kWindowMask = 0xFFFFFF;

bool Contains(const Cta& cta, uint32_t offset, uint32_t bytes, const std::vector<uint32_t>& units) {
  if (units.empty()) return cta.shared.Contains(offset, bytes);
  return std::all_of(units.begin(), units.end(),
                     [&](uint32_t unit) { return cta.shared.Contains(unit, kUnitBytes); });
}

void Observe(Sanitizer& sanitizer, const Cta& cta, uint32_t offset, uint32_t bytes,
             const std::vector<uint32_t>& units, const Sanitizer::Step& step) {
  if (units.empty()) {
    sanitizer.Shared(cta, offset, bytes, step);
  } else {
    sanitizer.SharedUnits(cta, units, kUnitBytes, step);
  }
}

// Checks and marks the access to `bytes` bytes at a shared address, or to units of its window.
void CheckAccess(Cluster& cluster, const Issuer& issuer, uint32_t address, uint32_t bytes,
                 const Delivery& how, AccessKind kind) {
  if (how.units.empty()) {
    SharedAccess(cluster, issuer, address, bytes, how.align, kind, how.proxy, how.engine);
  }
  const uint32_t window = address & ~kWindowMask;
  for (const uint32_t unit : how.units) {
    SharedAccess(cluster, issuer, window + unit, kUnitBytes, kUnitBytes, kind, how.proxy,
                 how.engine);
  }
}

EngineStep CheckLoad(Warp& w, const Issuer& issuer, const Delivery& delivery,
                     const LoadTarget& target, uint32_t bytes) {
  Sanitizer* sanitizer = Engines::Of(w).sanitizer();
  if (!sanitizer || !Contains(*target.cta, target.offset, bytes, delivery.units)) return {};
  CheckInitialised(issuer, target.barrier, delivery.proxy);
  Sanitizer::Step step = sanitizer->ThreadStep(issuer, delivery.writes, true);
  step.actor = TransactionActor(issuer, target.barrier, &step.step);
  step.in_order_with = delivery.atomic ? step.actor : kNoActor;
  step.generic = delivery.proxy == Proxy::kGeneric;
  Observe(*sanitizer, *target.cta, target.offset, bytes, delivery.units, step);
  return {step.actor, step.step, sanitizer->Snapshot(issuer)};
}

void DeliverLoad(Cluster& cluster, const Issuer& issuer, const Delivery& delivery,
                 const LoadTarget& target, const Loaded& loaded, const Deposit& deposit,
                 const Knowledge* before) {
  const std::vector<uint8_t>& data = loaded.bytes;
  CheckAccess(cluster, issuer, target.cta->shared_base() + target.offset,
              static_cast<uint32_t>(data.size()), delivery, AccessKind::kWrite);
  deposit(data, target.cta->shared.at(0), target.offset);
  if (!loaded.written.empty()) {
    deposit(loaded.written, target.cta->shared.written(0), target.offset);
  }
  const size_t counted = delivery.counted != 0 ? delivery.counted : data.size();
  if (EntryOf(issuer, target.barrier).object.completed_phases() != target.phase) {
    Fail(issuer, "mbarrier",
         "the phase for which the copy was issued completed without its " +
             std::to_string(counted) + " bytes: expect_tx was too small",
         target.barrier.address(), "shared memory");
  }
  CompleteTransactions(issuer, target.barrier, static_cast<int64_t>(counted), before);
}

}  // namespace

void IssueLoad(Warp& w, int lane, const Delivery& delivery, std::vector<LoadTarget> targets,
               uint32_t bytes, Produce produce, Deposit deposit) {
  const Issuer issuer = w.Here(lane);
  Cluster& cluster = w.cta.cluster;
  for (LoadTarget& target : targets) {
    target.phase = EntryOf(issuer, target.barrier).object.completed_phases();
  }
  // The data arrive at every target of a multicast at their own time.
  for (const LoadTarget& target : targets) {
    PendingStep step;
    step.order = CheckLoad(w, issuer, delivery, target, bytes);
    step.issuer = issuer;
    step.name = delivery.name;
    step.completes = target.barrier;
    step.work.kind = delivery.work;
    step.work.bytes = bytes;
    step.work.receiver = target.cta->rank;
    step.work.multicast = &target != &targets[0];
    step.work.targets = static_cast<uint32_t>(targets.size());
    step.work.runs = delivery.runs;
    step.act = [&cluster, issuer, delivery, target, bytes, produce, deposit,
                before = step.order.knowledge] {
      Loaded loaded{std::vector<uint8_t>(bytes), {}};
      produce(loaded);
      DeliverLoad(cluster, issuer, delivery, target, loaded, deposit, before.get());
    };
    Engines::Of(w).QueueFree(std::move(step));
  }
}

ActorId StoreReads(Engines& engines, const Issuer& issuer) {
  return engines.ActorOf(ActorKind::kBulkGroup, issuer, "a bulk store", false);
}

ActorId StoreWrites(Engines& engines, const Issuer& issuer) {
  return engines.ActorOf(ActorKind::kBulkWrite, issuer, "a bulk store", false);
}

namespace {

// A store that several lanes ask for: whichever of their steps comes first carries it out.
struct CommonStore {
  Issuer issuer;  // the first of them
  StoreRequest request;
  Delivery how;
  EngineStep order = {};
  std::vector<uint8_t> data = {};
  bool read = false;
  bool written = false;

  void Read(Cluster& cluster) {
    if (std::exchange(read, true)) return;
    CheckAccess(cluster, issuer, request.source, request.bytes, how, AccessKind::kRead);
    data.resize(request.bytes);
    SharedMemory& shared = cluster.SharedOwner(request.source)->shared;
    request.collect(data, shared.at(0), request.source & kWindowMask);
    if (cluster.launch.observer && !cluster.kernel().unwritten.empty()) {
      CheckRegisters(cluster.kernel(), shared);
    }
  }
  // Reports bytes that are values of registers that nothing has written.
  void CheckRegisters(const Kernel& kernel, SharedMemory& shared) const {
    std::vector<uint8_t> marks(request.bytes);
    request.collect(marks, shared.written(0), request.source & kWindowMask);
    for (const auto& [first, count] : request.arriving) {
      for (uint32_t i = first; i < first + count; ++i) {
        if (marks[i] < kOfRegister) continue;
        return ReportUnwritten(issuer, UnwrittenOf(kernel, marks[i]));
      }
    }
  }
  void Write() {
    if (!std::exchange(written, true)) request.deliver(data);
  }
};

void ObserveStore(Warp& w, CommonStore* store) {
  Engines& engines = Engines::Of(w);
  const StoreRequest& request = store->request;
  const uint32_t offset = request.source & kWindowMask;
  Sanitizer* sanitizer = engines.sanitizer();
  if (!sanitizer || !Contains(w.cta, offset, request.bytes, request.units)) return;
  Sanitizer::Step step = sanitizer->ThreadStep(store->issuer, "the bulk store reads", false);
  step.actor = StoreReads(engines, store->issuer);
  step.step = engines.OpenGroup(ChannelKind::kBulkRead, store->issuer);
  step.in_order_with = kNoActor;
  step.generic = false;
  Observe(*sanitizer, w.cta, offset, request.bytes, request.units, step);
  sanitizer->RememberStore(store->issuer, step.actor, step.step);
  store->order = {StoreWrites(engines, store->issuer), step.step,
                  sanitizer->Snapshot(store->issuer)};
}

}  // namespace

uint8_t* PlaceOfWrite(Cluster& cluster, const Issuer& issuer, const WrittenRange& range,
                      AccessKind kind, const uint8_t* values) {
  Warp& warp = *issuer.cta->warps[issuer.warp];
  const uint8_t* outer = std::exchange(warp.stored, values);
  uint8_t* place = GlobalAccess(cluster, issuer, range.address, range.bytes, range.align, kind,
                                Proxy::kAsync, kBulkEngine);
  warp.stored = outer;
  return place;
}

void IssueStore(Warp& w, uint32_t lanes, const StoreRequest& request) {
  Engines& engines = Engines::Of(w);
  Cluster& cluster = w.cta.cluster;
  const int first = std::countr_zero(lanes);
  Delivery how{request.name};
  how.units = request.units;
  auto store = std::make_shared<CommonStore>(w.Here(first), request, std::move(how));
  ObserveStore(w, store.get());
  ForEachLane(lanes, [&](int lane) {
    // The others take no time of their own.
    const bool carries = lane == first;
    PendingStep read;
    read.issuer = w.Here(lane);
    read.name = request.name;
    if (carries) read.work.kind = AsyncWork::Kind::kBulkRead;
    read.work.bytes = carries ? request.bytes : 0;
    read.act = [&engines, &cluster, store, carries, issuer = read.issuer] {
      store->Read(cluster);
      PendingStep write;
      write.issuer = issuer;
      write.name = store->request.name;
      write.order = store->order;
      if (carries) {
        write.work.kind = AsyncWork::Kind::kBulkWrite;
        write.work.bytes = store->request.bytes;
        write.work.runs = store->request.runs;
      }
      write.act = [store] { store->Write(); };
      engines.Queue(ChannelKind::kBulkWrite, std::move(write));
    };
    engines.Queue(ChannelKind::kBulkRead, std::move(read));
  });
}

}  // namespace tilelang::emulator
