// Instruction families cp.async.bulk and cp.reduce.async.bulk (one-dimensional) and bulk groups.
#include <cstring>
#include <string>
#include <utility>

#include "emulator/async/bulk_transfer.h"
#include "emulator/core/algebra.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {
namespace {

struct BulkForm : TransferForm {
  AddressOperand destination;
  AddressOperand source;
  bool masked = false;  // .cp_mask
  TensorType type = TensorType::kU8;
};

constexpr uint32_t kWindowBytes = 1 << 24;  // of a CTA's shared addresses

// Operands: [0] size, [1] CTA mask or byte mask or none.
uint32_t SizeOf(Warp& w, const Op& op, int lane) {
  const uint32_t size = w.Reg<uint32_t>(op.a[0])[lane];
  if (size % 16 != 0 || size == 0) {
    Fail(w.Here(lane), "illegal-operand",
         "the size of a bulk copy must be a positive multiple of 16 bytes, not " +
             std::to_string(size));
  }
  return size;
}

void DepositPlain(const std::vector<uint8_t>& bytes, uint8_t* shared, uint32_t offset) {
  CopyBytes(shared + offset, bytes.data(), bytes.size());
}

void CollectPlain(std::vector<uint8_t>& bytes, const uint8_t* shared, uint32_t offset) {
  CopyBytes(bytes.data(), shared + offset, bytes.size());
}

// Describes the copy of one thread. Shared addresses are in the window of the cluster.
struct Ends {
  uint32_t bytes;
  uint64_t destination;
  uint64_t source;
  bool operator==(const Ends&) const = default;
};

template <Route route>
Ends EndsOf(Warp& w, const Op& op, int lane) {
  const auto& form = op.Extra<BulkForm>();
  Ends ends{SizeOf(w, op, lane), form.destination.At(w, lane), form.source.At(w, lane)};
  if (route != Route::kStore) {
    ends.destination = ToSharedAddress(w, lane, Space::kShared, ends.destination);
  }
  if (route != Route::kLoad) {
    ends.source = ToSharedAddress(w, lane, Space::kShared, ends.source);
  }
  const Issuer issuer = w.Here(lane);
  if (ends.bytes >= kWindowBytes) {
    Fail(issuer, "illegal-operand",
         "a bulk copy of " + std::to_string(ends.bytes) + " bytes is larger than shared memory");
  }
  CheckAligned(issuer, "the destination of a bulk copy", ends.destination, 16);
  CheckAligned(issuer, "the source of a bulk copy", ends.source, 16);
  return ends;
}

template <Route route>
const uint8_t* SourceBytes(Cluster& cluster, const Issuer& issuer, uint64_t source,
                           uint32_t bytes) {
  if (route == Route::kLoad) {
    return GlobalAccess(cluster, issuer, source, bytes, 16, AccessKind::kRead, Proxy::kAsync,
                        kBulkEngine);
  }
  return SharedAccess(cluster, issuer, static_cast<uint32_t>(source), bytes, 16, AccessKind::kRead,
                      Proxy::kAsync, kBulkEngine);
}

// The source in shared memory is read until the phase of the other CTA's barrier is over.
void CheckSentBytes(Warp& w, const Issuer& issuer, const Ends& ends, const BarrierRef& barrier) {
  Sanitizer* sanitizer = Engines::Of(w).sanitizer();
  const auto offset = static_cast<uint32_t>(ends.source & 0xFFFFFF);
  if (!sanitizer || !w.cta.shared.Contains(offset, ends.bytes)) return;
  Sanitizer::Step step = sanitizer->ThreadStep(issuer, "the bulk copy reads", false);
  step.actor = TransactionActor(issuer, barrier, &step.step);
  step.in_order_with = kNoActor;
  step.generic = false;
  sanitizer->Shared(w.cta, offset, ends.bytes, step);
  sanitizer->MustEndBefore(w.cta, step);
}

// Copies to shared memory, plainly or as a reduction.
template <Route route>
Flow Load(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BulkForm>();
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const Ends ends = EndsOf<route>(w, op, lane);
    const BarrierRef barrier = ResolveBarrier(w, lane, Space::kShared, form.barrier.At(w, lane));
    const uint32_t ctas = form.multicast ? w.Reg<uint16_t>(op.a[1])[lane] : 0;
    if (route == Route::kSend) CheckSentBytes(w, issuer, ends, barrier);
    Delivery delivery{"cp.async.bulk"};
    delivery.atomic = form.reduces;
    if (route == Route::kSend) delivery.work = AsyncWork::Kind::kBulkSend;
    if (route == Route::kLoad) delivery.runs = {{ends.source, ends.bytes}};
    IssueLoad(
        w, lane, delivery,
        LoadTargets(w, lane, static_cast<uint32_t>(ends.destination), barrier, form.multicast,
                    ctas),
        ends.bytes,
        [&cluster, issuer, ends, reduces = form.reduces](Loaded& loaded) {
          CopyBytes(loaded.bytes.data(),
                    SourceBytes<route>(cluster, issuer, ends.source, ends.bytes), ends.bytes);
          if (route != Route::kLoad || reduces) return;
          const uint8_t* written = cluster.launch.global.WrittenAt(ends.source);
          if (written) loaded.written.assign(written, written + ends.bytes);
        },
        [&form](const std::vector<uint8_t>& data, uint8_t* shared, uint32_t offset) {
          if (!form.reduces) return DepositPlain(data, shared, offset);
          Reduce(form.reduce, form.type, data.data(), shared + offset,
                 static_cast<uint32_t>(data.size()), false);
        });
  });
  return Flow::kNext;
}

void WriteGlobal(const BulkForm& form, const std::vector<uint8_t>& data, uint8_t* to,
                 uint32_t byte_mask) {
  if (form.reduces) {
    const bool flush = form.type == TensorType::kF32;
    Reduce(form.reduce, form.type, data.data(), to, static_cast<uint32_t>(data.size()), flush);
  } else if (form.masked) {
    for (size_t i = 0; i < data.size(); ++i) {
      if ((byte_mask >> (i % 16)) & 1) CopyBytes(to + i, data.data() + i, 1);
    }
  } else {
    CopyBytes(to, data.data(), data.size());
  }
}

Flow Store(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BulkForm>();
  Cluster& cluster = w.cta.cluster;
  const auto byte_mask_of = [&](int lane) -> uint32_t {
    return form.masked ? w.Reg<uint16_t>(op.a[1])[lane] : 0;
  };
  const auto key = [&](int lane) {
    return std::pair(EndsOf<Route::kStore>(w, op, lane), byte_mask_of(lane));
  };
  ForEachAlike(mask, !form.reduces, key, [&](int lane, uint32_t lanes) {
    const Issuer issuer = w.Here(lane);
    const Ends ends = EndsOf<Route::kStore>(w, op, lane);
    const uint32_t byte_mask = byte_mask_of(lane);
    const auto deliver = [&cluster, &form, issuer, ends,
                          byte_mask](const std::vector<uint8_t>& data) {
      const bool plain = !form.reduces && !form.masked;
      uint8_t* to = PlaceOfWrite(cluster, issuer, {ends.destination, ends.bytes, 16},
                                 form.written_as(), plain ? data.data() : nullptr);
      WriteGlobal(form, data, to, byte_mask);
    };
    IssueStore(w, lanes,
               {.name = "cp.async.bulk",
                .source = static_cast<uint32_t>(ends.source),
                .bytes = ends.bytes,
                .collect = CollectPlain,
                .deliver = deliver,
                .arriving = {{0, ends.bytes}},
                .runs = {{ends.destination, ends.bytes}}});
  });
  return Flow::kNext;
}

void TakeReduceType(Decoder& d, BulkForm& form) {
  d.mods.Take("noftz");
  const auto type = ReduceTypeOf(d.mods.TakeType());
  if (!type || !ReduceExists(form.reduce, *type)) {
    d.Illegal("cp.reduce.async.bulk does not have this operation for this type");
  }
  form.type = *type;
}

void DecodeTransfer(Decoder& d, bool reduces) {
  BulkForm& form = d.MakeExtra<BulkForm>();
  const Route route =
      TakeRoute(d, form, reduces, reduces ? "cp.reduce.async.bulk" : "cp.async.bulk");
  if (reduces) TakeReduceType(d, form);
  form.masked = d.mods.Take("cp_mask");
  if (form.masked && (reduces || route != Route::kStore)) {
    d.Illegal(".cp_mask is allowed only on copies to global memory");
  }
  form.destination = d.Address(d.operand(0));
  form.source = d.Address(d.operand(1));
  d.PushSource(2, Type::kU32);
  if (route != Route::kStore) form.barrier = d.Address(d.operand(3));
  switch (route) {
    case Route::kLoad:
      if (form.multicast) d.PushSource(4, Type::kU16);
      d.op.handler = Load<Route::kLoad>;
      return;
    case Route::kSend:
      d.op.handler = Load<Route::kSend>;
      return;
    case Route::kStore:
      // The byte mask comes last, after a cache policy.
      if (form.masked) d.PushSource(d.size() - 1, Type::kU16);
      if (reduces && !Commutes(form.reduce, form.type)) d.MarkUnordered();
      d.op.handler = Store;
      return;
  }
}

void DecodeCopy(Decoder& d) { DecodeTransfer(d, false); }
void DecodeReduce(Decoder& d) { DecodeTransfer(d, true); }

Flow Prefetch(Warp& w, const Op& op, uint32_t mask) {
  ForEachLane(mask, [&](int lane) { SizeOf(w, op, lane); });
  return Flow::kNext;
}

void DecodePrefetch(Decoder& d) {
  d.mods.Take("L2");
  d.mods.Take("global");
  d.mods.Take("L2::cache_hint");
  d.PushSource(1, Type::kU32);
  d.op.handler = Prefetch;
}

Flow Commit(Warp& w, const Op&, uint32_t mask) {
  ForEachLane(mask, [&](int lane) { Engines::Of(w).CommitBulkGroup(w.Here(lane)); });
  return Flow::kNext;
}

void DecodeCommit(Decoder& d) { d.op.handler = Commit; }

template <bool reads_only>
Flow WaitGroup(Warp& w, const Op& op, uint32_t mask) {
  Engines& engines = Engines::Of(w);
  const uint32_t pending = static_cast<uint32_t>(op.immediate);
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t done = engines.FinishGroups(ChannelKind::kBulkRead, issuer, pending, issuer);
    if (!reads_only) engines.FinishGroups(ChannelKind::kBulkWrite, issuer, pending, issuer);
    Sanitizer* sanitizer = engines.sanitizer();
    if (!sanitizer || done == 0) return;
    sanitizer->Learn(issuer, StoreReads(engines, issuer), done);
    if (!reads_only) sanitizer->Learn(issuer, StoreWrites(engines, issuer), done);
  });
  return Flow::kNext;
}

void DecodeWaitGroup(Decoder& d) {
  d.op.handler = d.mods.Take("read") ? WaitGroup<true> : WaitGroup<false>;
  d.op.immediate = d.Integer(d.operand(0));
  if (d.op.immediate < 0) d.Illegal("cp.async.bulk.wait_group needs a count of 0 or more");
}

}  // namespace

void RegisterBulkCopy() {
  FamilyRegistry::Add("cp.async.bulk", DecodeCopy);
  FamilyRegistry::Add("cp.reduce.async.bulk", DecodeReduce);
  FamilyRegistry::Add("cp.async.bulk.prefetch", DecodePrefetch);
  FamilyRegistry::Add("cp.async.bulk.commit_group", DecodeCommit);
  FamilyRegistry::Add("cp.async.bulk.wait_group", DecodeWaitGroup);
}

}  // namespace tilelang::emulator
