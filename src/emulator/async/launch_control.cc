// Instruction family clusterlaunchcontrol: a running cluster takes over one that has not started.
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "emulator/async/bulk_transfer.h"
#include "emulator/core/families.h"
#include "emulator/core/function_decoder.h"
#include "emulator/core/launch.h"

namespace tilelang::emulator {
namespace {

constexpr const char* kTryCancel = "clusterlaunchcontrol.try_cancel";

// The 16 bytes of a response; opaque to programs.
struct Response {
  uint32_t x, y, z;  // of the first CTA of the cluster that will not run
  uint32_t canceled;
};
constexpr uint32_t kResponseBytes = sizeof(Response);
constexpr Response kNoneLeft = {~0u, ~0u, ~0u, 0};

// Takes the next cluster from the clusters that wait for their start. Random schedules refuse now
// and then, as a GPU may; the remaining clusters start as usual.
Response TakePending(Cluster& asking) {
  Launch& launch = asking.launch;
  if (Engines::Of(asking).RarelyHappens()) return kNoneLeft;
  const uint64_t index =
      launch.pending_cluster ? launch.pending_cluster() : uint64_t{launch.next_cluster++};
  if (index >= launch.clusters()) return kNoneLeft;
  const Dim3& grid = launch.options.grid;
  const Dim3& cluster = launch.options.cluster;
  const uint64_t columns = grid.x / cluster.x, rows = grid.y / cluster.y;
  return {static_cast<uint32_t>(index % columns) * cluster.x,
          static_cast<uint32_t>(index / columns % rows) * cluster.y,
          static_cast<uint32_t>(index / (columns * rows)) * cluster.z, 1};
}

struct CancelForm {
  AddressOperand response;
  AddressOperand barrier;
  Space space = Space::kGeneric;
  bool multicast = false;
};

Flow TryCancel(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<CancelForm>();
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t address = ToSharedAddress(w, lane, form.space, form.response.At(w, lane));
    CheckAligned(issuer, "the response of clusterlaunchcontrol.try_cancel", address,
                 kResponseBytes);
    const BarrierRef barrier = ResolveBarrier(w, lane, form.space, form.barrier.At(w, lane));
    if (cluster.SharedOwner(address) != &w.cta || barrier.owner != &w.cta) {
      Fail(issuer, "illegal-operand",
           "the response and the mbarrier of clusterlaunchcontrol.try_cancel must lie in the "
           "CTA's own shared memory",
           address, "shared memory");
    }
    const uint32_t everybody = static_cast<uint32_t>((uint64_t{1} << cluster.ctas.size()) - 1);
    // One answer, decided when it first arrives somewhere.
    const auto answer = std::make_shared<std::optional<Response>>();
    IssueLoad(
        w, lane, {kTryCancel, kTryCancel, "clusterlaunchcontrol.try_cancel answers in"},
        LoadTargets(w, lane, address, barrier, form.multicast, everybody), kResponseBytes,
        [&cluster, answer](Loaded& loaded) {
          if (!*answer) *answer = TakePending(cluster);
          std::memcpy(loaded.bytes.data(), &**answer, kResponseBytes);
        },
        [](const std::vector<uint8_t>& data, uint8_t* shared, uint32_t offset) {
          std::memcpy(shared + offset, data.data(), data.size());
        });
  });
  return Flow::kNext;
}

void DecodeTryCancel(Decoder& d) {
  CancelForm& form = d.MakeExtra<CancelForm>();
  for (const char* name : {"async", "mbarrier::complete_tx::bytes", "b128"}) {
    if (!d.mods.Take(name)) d.Illegal(std::string(kTryCancel) + " needs ." + name);
  }
  form.space = d.mods.TakeSpace();
  form.multicast = d.mods.Take("multicast::cluster::all");
  form.response = d.Address(d.operand(0));
  form.barrier = d.Address(d.operand(1));
  d.function().kernel().cancels = true;
  d.MarkUnordered();  // which cluster gets which work depends on the order of all
  d.op.handler = TryCancel;
}

Flow IsCanceled(Warp& w, const Op& op, uint32_t mask) {
  uint32_t canceled = 0;
  ForEachLane(mask, [&](int lane) {
    if (w.Reg<Response>(op.slots[1])[lane].canceled != 0) canceled |= 1u << lane;
  });
  w.SetPredicate(op.slots[0], mask, canceled);
  return Flow::kNext;
}

// Operands: the response, then a destination for each of `count` coordinates from `first` on.
template <int first, int count>
Flow FirstCta(Warp& w, const Op& op, uint32_t mask) {
  ForEachLane(mask, [&](int lane) {
    const Response response = w.Reg<Response>(op.slots[0])[lane];
    if (response.canceled == 0) {
      Warn(w.Here(lane), "undefined-ctaid",
           "get_first_ctaid of a response that cancelled nothing is undefined");
    }
    const uint32_t id[] = {response.x, response.y, response.z, 0};
    for (int i = 0; i < count; ++i) w.Reg<uint32_t>(op.slots[1 + i])[lane] = id[first + i];
  });
  return Flow::kNext;
}

void DecodeQuery(Decoder& d) {
  const std::string what = d.mods.TakeOneOf({"is_canceled", "get_first_ctaid", "get_first_ctaid::x",
                                             "get_first_ctaid::y", "get_first_ctaid::z"});
  if (what.empty()) d.Illegal("clusterlaunchcontrol.query_cancel needs a question");
  if (!d.mods.Take("b128")) d.Illegal("clusterlaunchcontrol.query_cancel needs .b128");
  if (what == "is_canceled") {
    if (!d.mods.Take("pred")) d.Illegal("is_canceled needs .pred");
    d.Push(d.PredicateDestination(d.operand(0)));
    d.PushSource(1, Type::kB128);
    d.op.handler = IsCanceled;
    return;
  }
  if (!d.mods.Take("b32")) d.Illegal("get_first_ctaid needs .b32");
  const size_t count = what == "get_first_ctaid" ? 4 : 1;
  if (count == 4 && d.mods.TakeVector() != 4) d.Illegal("get_first_ctaid needs .v4");
  const auto destinations = d.Elements(d.operand(0));
  if (destinations.size() != count) d.Illegal("get_first_ctaid.v4 needs four destinations");
  d.PushSource(1, Type::kB128);
  for (const ptx::Operand* destination : destinations) {
    d.Push(d.Destination(*destination, Type::kB32));
  }
  d.op.handler = count == 4           ? FirstCta<0, 4>
                 : what.back() == 'x' ? FirstCta<0, 1>
                 : what.back() == 'y' ? FirstCta<1, 1>
                                      : FirstCta<2, 1>;
}

}  // namespace

void RegisterLaunchControl() {
  FamilyRegistry::Add(kTryCancel, DecodeTryCancel);
  FamilyRegistry::Add("clusterlaunchcontrol.query_cancel", DecodeQuery);
}

}  // namespace tilelang::emulator
