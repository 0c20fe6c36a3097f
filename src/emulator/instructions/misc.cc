// Fences, hints, sleeping, cluster addresses.
#include <atomic>
#include <bit>

#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/tile_index.h"

namespace tilelang::emulator {
namespace {

Flow Fence(Warp& w, const Op&, uint32_t mask) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (AccessObserver* observer = w.cta.cluster.launch.observer) {
    observer->OnSync(SyncEvent::kFence, 0, w.Here(std::countr_zero(mask)));
  }
  return Flow::kNext;
}

void DecodeFence(Decoder& d) {
  d.op.order = ScopeBit(d.mods.Has("cta") ? "cta" : d.mods.Has("cluster") ? "cluster" : "gpu");
  for (const char* name : {"sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys",
                           "sync_restrict::shared::cta", "sync_restrict::shared::cluster"}) {
    d.mods.Take(name);
  }
  d.op.handler = Fence;
}

void DecodeMembar(Decoder& d) {
  d.op.order = ScopeBit(d.mods.TakeOneOf({"cta", "gl", "sys"}));
  d.op.handler = Fence;
}

Flow InitFence(Warp& w, const Op&, uint32_t mask) {
  if (AccessObserver* observer = w.cta.cluster.launch.observer) {
    observer->OnSync(SyncEvent::kInitFence, 0, w.Here(std::countr_zero(mask)));
  }
  return Flow::kNext;
}

void DecodeInitFence(Decoder& d) {
  d.mods.Take("release");
  d.mods.Take("cluster");
  d.op.handler = InitFence;
}

Flow Nothing(Warp&, const Op&, uint32_t) { return Flow::kNext; }

// Ordering between proxies has no effect on values here: engines act on the same memory.
Flow ProxyFence(Warp& w, const Op&, uint32_t mask) {
  if (AccessObserver* observer = w.cta.cluster.launch.observer) {
    observer->OnSync(SyncEvent::kProxyFence, 0, w.Here(std::countr_zero(mask)));
  }
  return Flow::kNext;
}

void DecodeProxyFence(Decoder& d) {
  // Followed are generic accesses of shared memory; the other proxies and spaces have no effect.
  const bool follows = (d.mods.Has("async") || d.mods.Has("async::generic")) &&
                       !d.mods.Has("global") && !d.mods.Has("async.global");
  for (const char* name :
       {"alias", "async", "async.global", "async::generic", "acquire", "release", "cta", "cluster",
        "gpu", "sys", "global", "shared::cta", "shared::cluster", "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster"}) {
    d.mods.Take(name);
  }
  d.op.handler = follows ? ProxyFence : Nothing;
}

// A sleeping thread lets all others run for one turn.
Flow Sleep(Warp&, const Op&, uint32_t) { return Flow::kYield; }

void DecodeSleep(Decoder& d) {
  d.mods.TakeType();
  d.PushSource(0, Type::kU32);
  d.op.handler = Sleep;
}

// Events for profilers: a number or a mask of them.
void DecodeEvent(Decoder& d) {
  d.mods.Take("mask");
  d.Integer(d.operand(0));
  d.op.handler = Nothing;
}

Flow WaitForPreviousGrid(Warp& w, const Op&, uint32_t mask) {
  Launch& launch = w.cta.cluster.launch;
  if (launch.previous_runs) return w.WaitOn({.object = "the previous grid"});
  if (launch.observer && launch.previous) {
    launch.previous_awaited = true;
    launch.observer->OnSync(SyncEvent::kPreviousGrid, 0, w.Here(std::countr_zero(mask)));
  }
  return Flow::kNext;
}

// The next grid comes after this one here; that it may not is for its launch.
Flow LaunchDependents(Warp& w, const Op&, uint32_t mask) {
  Launch& launch = w.cta.cluster.launch;
  if (launch.observer) {
    launch.dependents_launched = true;
    launch.observer->OnSync(SyncEvent::kDependents, 0, w.Here(std::countr_zero(mask)));
  }
  return Flow::kNext;
}

void DecodeGridDependency(Decoder& d) {
  const std::string what = d.mods.TakeOneOf({"launch_dependents", "wait"});
  if (what.empty()) d.Illegal("griddepcontrol needs .launch_dependents or .wait");
  const bool launches = what == "launch_dependents";
  if (launches) d.function().kernel().launches_dependents = true;
  d.op.handler = launches ? LaunchDependents : WaitForPreviousGrid;
}

Flow SetMaxRegisters(Warp& w, const Op& op, uint32_t mask) { return w.Align(mask); }

void DecodeSetMaxRegisters(Decoder& d) {
  d.mods.TakeOneOf({"inc", "dec"});
  if (!d.mods.Take("sync") || !d.mods.Take("aligned")) d.Illegal("setmaxnreg needs .sync.aligned");
  d.mods.TakeType();
  int64_t count = d.Integer(d.operand(0));
  if (count < 24 || count > 256 || count % 8) {
    d.Illegal("setmaxnreg takes a multiple of 8 from 24 to 256, got " + std::to_string(count));
  }
  d.op.handler = SetMaxRegisters;
}

// --- cluster addresses
// ----------------------------------------------------------------------------

constexpr uint32_t kNoRank = 0xFF;  // the last that an address has room for

template <typename T>
Flow MapAddress(Warp& w, const Op& op, uint32_t mask) {
  T* d = w.Reg<T>(op.a[0]);
  const T* a = w.Reg<T>(op.a[1]);
  const uint32_t* rank = w.Reg<uint32_t>(op.a[2]);
  // A rank that the cluster does not have gives an address that is in no CTA: an error where it is
  // used.
  ForEachLane(mask, [&](int i) {
    d[i] = (a[i] & ~T{0xFF000000u}) | static_cast<T>(std::min(rank[i], kNoRank) << 24);
  });
  return Flow::kNext;
}

void DecodeMapAddress(Decoder& d) {
  d.mods.TakeSpace();
  Type type = d.mods.TakeType();
  PushUniform(d, type, 1);
  d.PushSource(2, Type::kU32);
  d.op.handler = TypeBits(type) == 64 ? MapAddress<uint64_t> : MapAddress<uint32_t>;
}

template <typename T>
Flow CtaRank(Warp& w, const Op& op, uint32_t mask) {
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  const T* a = w.Reg<T>(op.a[1]);
  ForEachLane(mask, [&](int i) { d[i] = static_cast<uint32_t>(a[i]) >> 24; });
  return Flow::kNext;
}

void DecodeCtaRank(Decoder& d) {
  d.mods.TakeSpace();
  Type type = d.mods.TakeType();
  d.PushDestination(0, Type::kU32);
  d.PushSource(1, type);
  d.op.handler = TypeBits(type) == 64 ? CtaRank<uint64_t> : CtaRank<uint32_t>;
}

}  // namespace

void RegisterMisc() {
  FamilyRegistry::Add("fence", DecodeFence);
  FamilyRegistry::Add("fence.proxy", DecodeProxyFence);
  FamilyRegistry::Add("fence.mbarrier_init", DecodeInitFence);
  FamilyRegistry::Add("membar", DecodeMembar);
  FamilyRegistry::Add("membar.proxy", DecodeProxyFence);
  FamilyRegistry::Add("nanosleep", DecodeSleep);
  FamilyRegistry::Add("griddepcontrol", DecodeGridDependency);
  FamilyRegistry::Add("setmaxnreg", DecodeSetMaxRegisters);
  FamilyRegistry::Add("pmevent", DecodeEvent);
  FamilyRegistry::Add("mapa", DecodeMapAddress);
  FamilyRegistry::Add("getctarank", DecodeCtaRank);
  FamilyRegistry::Add("tilelang.index", DecodeTileIndex);
}

}  // namespace tilelang::emulator
