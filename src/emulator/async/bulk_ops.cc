// Instruction families cp.async.bulk and cp.reduce.async.bulk (one-dimensional) and bulk groups.
#include <cstring>
#include <string>

#include "emulator/async/bulk_transfer.h"
#include "emulator/async/families.h"
#include "emulator/async/reduce.h"

namespace tilelang::emulator {
namespace {

struct BulkForm {
  AddressOperand destination;
  AddressOperand source;
  AddressOperand barrier;
  bool multicast = false;
  bool masked = false;  // .cp_mask
  bool reduces = false;
  ReduceOp reduce = ReduceOp::kAdd;
  TensorType type = TensorType::kU8;
};

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
  std::memcpy(shared + offset, bytes.data(), bytes.size());
}

void CollectPlain(std::vector<uint8_t>& bytes, const uint8_t* shared, uint32_t offset) {
  std::memcpy(bytes.data(), shared + offset, bytes.size());
}

Flow Load(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BulkForm>();
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t bytes = SizeOf(w, op, lane);
    const uint32_t destination =
        ToSharedAddress(w, lane, Space::kShared, form.destination.At(w, lane));
    const uint64_t source = form.source.At(w, lane);
    CheckAligned(issuer, "the destination of a bulk copy", destination, 16);
    CheckAligned(issuer, "the source of a bulk copy", source, 16);
    const BarrierRef barrier = ResolveBarrier(w, lane, Space::kShared, form.barrier.At(w, lane));
    const uint32_t ctas = form.multicast ? w.Reg<uint16_t>(op.a[1])[lane] : 0;
    IssueLoad(
        w, lane, "cp.async.bulk", LoadTargets(w, lane, destination, barrier, form.multicast, ctas),
        bytes,
        [&cluster, issuer, source](std::vector<uint8_t>& data) {
          std::memcpy(data.data(),
                      GlobalAccess(cluster, issuer, source, static_cast<uint32_t>(data.size()), 16,
                                   AccessKind::kRead, Proxy::kAsync, kBulkEngine),
                      data.size());
        },
        DepositPlain);
  });
  return Flow::kNext;
}

// From this CTA's shared memory to another's, plainly or as a reduction.
Flow Send(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BulkForm>();
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t bytes = SizeOf(w, op, lane);
    const uint32_t destination =
        ToSharedAddress(w, lane, Space::kShared, form.destination.At(w, lane));
    const uint32_t source = ToSharedAddress(w, lane, Space::kShared, form.source.At(w, lane));
    CheckAligned(issuer, "the destination of a bulk copy", destination, 16);
    CheckAligned(issuer, "the source of a bulk copy", source, 16);
    const BarrierRef barrier = ResolveBarrier(w, lane, Space::kShared, form.barrier.At(w, lane));
    IssueLoad(
        w, lane, "cp.async.bulk", LoadTargets(w, lane, destination, barrier, false, 0), bytes,
        [&cluster, issuer, source](std::vector<uint8_t>& data) {
          std::memcpy(data.data(),
                      SharedAccess(cluster, issuer, source, static_cast<uint32_t>(data.size()), 16,
                                   AccessKind::kRead, Proxy::kAsync, kBulkEngine),
                      data.size());
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
      if ((byte_mask >> (i % 16)) & 1) to[i] = data[i];
    }
  } else {
    std::memcpy(to, data.data(), data.size());
  }
}

Flow Store(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BulkForm>();
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t bytes = SizeOf(w, op, lane);
    const uint64_t destination = form.destination.At(w, lane);
    const uint32_t source = ToSharedAddress(w, lane, Space::kShared, form.source.At(w, lane));
    CheckAligned(issuer, "the destination of a bulk copy", destination, 16);
    CheckAligned(issuer, "the source of a bulk copy", source, 16);
    const uint32_t byte_mask = form.masked ? w.Reg<uint16_t>(op.a[1])[lane] : 0;
    IssueStore(w, lane, "cp.async.bulk", source, bytes, CollectPlain,
               [&cluster, &form, issuer, destination, byte_mask](const std::vector<uint8_t>& data) {
                 uint8_t* to =
                     GlobalAccess(cluster, issuer, destination, static_cast<uint32_t>(data.size()),
                                  16, AccessKind::kWrite, Proxy::kAsync, kBulkEngine);
                 WriteGlobal(form, data, to, byte_mask);
               });
  });
  return Flow::kNext;
}

void TakeReduction(Decoder& d, BulkForm& form) {
  form.reduces = true;
  const std::string name =
      d.mods.TakeOneOf({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  const auto reduce = ParseReduceOp(name);
  if (!reduce) d.Illegal("cp.reduce.async.bulk needs an operation");
  form.reduce = *reduce;
  d.mods.Take("noftz");
  switch (d.mods.TakeType()) {
    case Type::kU32:
    case Type::kB32:
      form.type = TensorType::kU32;
      break;
    case Type::kS32:
      form.type = TensorType::kS32;
      break;
    case Type::kU64:
    case Type::kB64:
      form.type = TensorType::kU64;
      break;
    case Type::kS64:
      form.type = TensorType::kS64;
      break;
    case Type::kF16:
      form.type = TensorType::kF16;
      break;
    case Type::kBF16:
      form.type = TensorType::kBf16;
      break;
    case Type::kF32:
      form.type = TensorType::kF32;
      break;
    case Type::kF64:
      form.type = TensorType::kF64;
      break;
    default:
      d.Illegal("cp.reduce.async.bulk does not exist for this type");
  }
  if (!ReduceExists(form.reduce, form.type)) {
    d.Illegal("cp.reduce.async.bulk ." + name + " does not exist for this type");
  }
}

void DecodeTransfer(Decoder& d, bool reduces) {
  BulkForm& form = d.MakeExtra<BulkForm>();
  const Space to = d.mods.TakeSpace();
  const Space from = d.mods.TakeSpace();
  if (reduces) TakeReduction(d, form);
  const bool on_barrier = d.mods.Take("mbarrier::complete_tx::bytes");
  const bool in_group = d.mods.Take("bulk_group");
  form.multicast = d.mods.Take("multicast::cluster");
  form.masked = d.mods.Take("cp_mask");
  d.mods.Take("L2::cache_hint");
  form.destination = d.Address(d.operand(0));
  form.source = d.Address(d.operand(1));
  d.PushSource(2, Type::kU32);
  if (on_barrier) form.barrier = d.Address(d.operand(3));
  if (to == Space::kShared && from == Space::kGlobal && on_barrier) {
    if (form.multicast) d.PushSource(4, Type::kU16);
    d.op.handler = Load;
  } else if (to == Space::kShared && from == Space::kShared && on_barrier) {
    d.op.handler = Send;
  } else if (to == Space::kGlobal && from == Space::kShared && in_group) {
    // The byte mask comes last, behind a cache policy.
    if (form.masked) d.PushSource(d.size() - 1, Type::kU16);
    d.op.handler = Store;
  } else {
    d.Unsupported("this direction or completion mechanism of cp.async.bulk");
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
    const uint32_t done = engines.FinishGroups(ChannelKind::kBulkRead, issuer, pending);
    if (!reads_only) engines.FinishGroups(ChannelKind::kBulkWrite, issuer, pending);
    Sanitizer* sanitizer = engines.sanitizer();
    if (!sanitizer || done == 0) return;
    sanitizer->Learn(issuer, engines.ActorOf(ActorKind::kBulkGroup, issuer, "a bulk store", false),
                     done);
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
