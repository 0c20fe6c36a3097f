// Instruction family cp.async (not bulk): copies of 4, 8 or 16 bytes by each thread, in groups.
#include <algorithm>
#include <cstring>
#include <string>

#include "emulator/async/engines.h"
#include "emulator/async/signals.h"
#include "emulator/core/algebra.h"
#include "emulator/core/decoder.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {
namespace {

constexpr const char* kEngine = "cp.async";

struct CopyForm {
  AddressOperand destination;
  AddressOperand source;
  uint32_t bytes = 0;
};

ActorId GroupActor(Engines& engines, const Issuer& issuer) {
  return engines.ActorOf(ActorKind::kCopyGroup, issuer, "cp.async", true);
}

void PerformCopy(Cluster& cluster, const Issuer& issuer, uint32_t destination, uint64_t source,
                 uint32_t bytes, uint32_t source_bytes) {
  uint8_t* to = SharedAccess(cluster, issuer, destination, bytes, bytes, AccessKind::kWrite,
                             Proxy::kGeneric, kEngine);
  ZeroBytes(to, bytes);
  if (source_bytes == 0) return;
  const uint8_t* from = GlobalAccess(cluster, issuer, source, source_bytes, 1, AccessKind::kRead,
                                     Proxy::kGeneric, kEngine);
  CopyBytes(to, from, source_bytes);
  if (const uint8_t* written = cluster.launch.global.WrittenAt(source)) {
    SharedMemory& shared = cluster.SharedOwner(destination)->shared;
    std::memcpy(shared.written(destination & 0xFFFFFF), written, source_bytes);
  }
}

// Operands: [0] source size (kNoSlot: all), [1] ignore-source predicate (kNoSlot: none).
Flow Copy(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<CopyForm>();
  Engines& engines = Engines::Of(w);
  Cluster& cluster = w.cta.cluster;
  const uint32_t ignored = op.a[1] == kNoSlot ? 0 : w.Predicate(op.a[1]);
  Sanitizer* sanitizer = engines.sanitizer();
  const Issuer warp = w.Here(__builtin_ctz(mask));
  const auto snapshot = sanitizer ? sanitizer->Snapshot(warp) : nullptr;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t destination =
        ToSharedAddress(w, lane, Space::kShared, form.destination.At(w, lane));
    const uint64_t source = form.source.At(w, lane);
    uint32_t source_bytes = op.a[0] == kNoSlot ? form.bytes : w.Reg<uint32_t>(op.a[0])[lane];
    if (source_bytes > form.bytes) {
      Fail(issuer, "illegal-operand",
           "src-size " + std::to_string(source_bytes) + " exceeds cp-size " +
               std::to_string(form.bytes));
    }
    if ((ignored >> lane) & 1) source_bytes = 0;
    if (source_bytes != 0 && source % form.bytes != 0) {
      Fail(issuer, "misaligned",
           "the source of cp.async must be aligned to its " + std::to_string(form.bytes) + " bytes",
           source);
    }
    PendingStep pending;
    Cta* owner = cluster.SharedOwner(destination);
    if (sanitizer && owner && owner->shared.Contains(destination & 0xFFFFFF, form.bytes)) {
      Sanitizer::Step step = sanitizer->ThreadStep(issuer, "cp.async writes", true);
      step.actor = GroupActor(engines, issuer);
      step.step = engines.OpenGroup(ChannelKind::kCopy, issuer);
      sanitizer->Shared(*owner, destination & 0xFFFFFF, form.bytes, step);
      pending.order = {step.actor, step.step, snapshot};
    }
    pending.issuer = issuer;
    pending.name = kEngine;
    pending.work.kind = AsyncWork::Kind::kThreadCopy;
    pending.act = [&cluster, issuer, destination, source, bytes = form.bytes, source_bytes] {
      PerformCopy(cluster, issuer, destination, source, bytes, source_bytes);
    };
    engines.Queue(ChannelKind::kCopy, std::move(pending));
  });
  return Flow::kNext;
}

void DecodeCopy(Decoder& d) {
  CopyForm& form = d.MakeExtra<CopyForm>();
  const std::string cache = d.mods.TakeOneOf({"ca", "cg"});
  if (cache.empty()) d.Illegal("cp.async needs .ca or .cg");
  if (d.mods.TakeSpace() != Space::kShared || d.mods.TakeSpace() != Space::kGlobal) {
    d.Illegal("cp.async must copy from .global to .shared");
  }
  const bool has_policy = d.mods.Take("L2::cache_hint");
  d.mods.TakeOneOf({"L2::64B", "L2::128B", "L2::256B"});
  form.destination = d.Address(d.operand(0));
  form.source = d.Address(d.operand(1));
  form.bytes = static_cast<uint32_t>(d.Integer(d.operand(2)));
  const bool size_ok = form.bytes == 16 || (cache == "ca" && (form.bytes == 4 || form.bytes == 8));
  if (!size_ok) {
    d.Illegal("cp.async." + cache + " cannot copy " + std::to_string(form.bytes) + " bytes");
  }
  const bool has_fourth = d.size() > (has_policy ? 4u : 3u);
  const bool is_predicate =
      has_fourth && (d.RegisterBits(d.operand(3)) == 1 || d.operand(3).negated);
  d.Push(has_fourth && !is_predicate ? d.Source(d.operand(3), Type::kU32) : kNoSlot);
  d.Push(is_predicate ? d.Predicate(d.operand(3)) : kNoSlot);
  d.op.immediate = form.bytes;
  d.op.handler = Copy;
}

Flow Commit(Warp& w, const Op&, uint32_t mask) {
  ForEachLane(mask,
              [&](int lane) { Engines::Of(w).CommitGroup(ChannelKind::kCopy, w.Here(lane)); });
  return Flow::kNext;
}

void DecodeCommit(Decoder& d) { d.op.handler = Commit; }

void FinishAndLearn(Warp& w, uint32_t mask, uint32_t pending) {
  Engines& engines = Engines::Of(w);
  uint32_t finished = ~0u;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    finished =
        std::min(finished, engines.FinishGroups(ChannelKind::kCopy, issuer, pending, issuer));
  });
  if (Sanitizer* sanitizer = engines.sanitizer()) {
    const Issuer issuer = w.Here(__builtin_ctz(mask));
    sanitizer->Learn(issuer, GroupActor(engines, issuer), finished);
  }
}

Flow WaitGroup(Warp& w, const Op& op, uint32_t mask) {
  FinishAndLearn(w, mask, static_cast<uint32_t>(op.immediate));
  return Flow::kNext;
}

void DecodeWaitGroup(Decoder& d) {
  d.op.immediate = d.Integer(d.operand(0));
  if (d.op.immediate < 0) d.Illegal("cp.async.wait_group needs a count of 0 or more");
  d.op.handler = WaitGroup;
}

// Acts as commit_group followed by wait_group 0.
Flow WaitAll(Warp& w, const Op& op, uint32_t mask) {
  Commit(w, op, mask);
  FinishAndLearn(w, mask, 0);
  return Flow::kNext;
}

void DecodeWaitAll(Decoder& d) { d.op.handler = WaitAll; }

struct ArriveForm {
  AddressOperand address;
  Space space = Space::kGeneric;
  bool counts = false;  // .noinc: the barrier expects the arrival
};

Flow ArriveWhenCopied(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<ArriveForm>();
  Engines& engines = Engines::Of(w);
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const BarrierRef barrier = ResolveBarrier(w, lane, form.space, form.address.At(w, lane));
    if (!form.counts) AddPending(issuer, barrier);
    auto known = std::make_shared<Knowledge>();
    if (Sanitizer* sanitizer = engines.sanitizer()) {
      *known = sanitizer->Of(issuer);
      known->happened.Raise(GroupActor(engines, issuer),
                            engines.OpenGroup(ChannelKind::kCopy, issuer));
    }
    PendingStep pending;
    pending.issuer = issuer;
    pending.name = "cp.async.mbarrier.arrive";
    pending.completes = barrier;
    pending.act = [issuer, barrier, known] { Arrive(issuer, barrier, 1, false, known.get()); };
    engines.Queue(ChannelKind::kCopy, std::move(pending));
  });
  return Flow::kNext;
}

void DecodeArrive(Decoder& d) {
  ArriveForm& form = d.MakeExtra<ArriveForm>();
  form.counts = d.mods.Take("noinc");
  form.space = d.mods.TakeSpace();
  d.mods.Take("b64");
  form.address = d.Address(d.operand(0));
  d.op.handler = ArriveWhenCopied;
}

}  // namespace

void RegisterCpAsync() {
  FamilyRegistry::Add("cp.async", DecodeCopy);
  FamilyRegistry::Add("cp.async.commit_group", DecodeCommit);
  FamilyRegistry::Add("cp.async.wait_group", DecodeWaitGroup);
  FamilyRegistry::Add("cp.async.wait_all", DecodeWaitAll);
  FamilyRegistry::Add("cp.async.mbarrier.arrive", DecodeArrive);
}

}  // namespace tilelang::emulator
