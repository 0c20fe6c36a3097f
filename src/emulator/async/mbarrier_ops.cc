// Instruction family mbarrier.*
#include <string>

#include "emulator/async/engines.h"
#include "emulator/async/signals.h"
#include "emulator/core/decoder.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {
namespace {

enum class CountForm : uint8_t { kPlain, kNoComplete, kExpect };

// Holds the modifiers of one instruction.
struct BarrierForm {
  AddressOperand address;
  Space space = Space::kGeneric;
  CountForm form = CountForm::kPlain;
  bool drop = false;
  bool parity = false;
  bool own_only = false;  // .shared, which means .shared::cta
};

BarrierRef Resolve(Warp& w, const BarrierForm& form, int lane) {
  const BarrierRef barrier = ResolveBarrier(w, lane, form.space, form.address.At(w, lane));
  if (form.own_only && barrier.owner != &w.cta) {
    Fail(w.Here(lane), "mbarrier",
         "the address is that of an mbarrier of another CTA, but .shared and .shared::cta allow "
         "those of the own CTA only: use .shared::cluster",
         barrier.address(), "shared memory");
  }
  return barrier;
}

void TakeCommon(Decoder& d, BarrierForm& form) {
  d.mods.Take("b64");
  form.own_only = d.mods.Has("shared") || d.mods.Has("shared::cta");
  form.space = d.mods.TakeSpace();
  if (d.mods.TakeOneOf({"release", "acquire"}).empty() && d.mods.Take("relaxed")) {
    d.op.order = kRelaxed;
  }
  d.mods.TakeOneOf({"cta", "cluster"});
}

Flow Init(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BarrierForm>();
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const BarrierRef barrier = Resolve(w, form, lane);
    if (Sanitizer* sanitizer = Engines::Of(w).sanitizer()) {
      sanitizer->Shared(*barrier.owner, barrier.offset, 8,
                        sanitizer->ThreadStep(issuer, "initialises the mbarrier in", true));
    }
    Located(issuer, barrier.address(), "shared memory", [&] {
      CtaState::Of(*barrier.owner)
          .CreateBarrier(issuer, barrier.offset, w.Reg<uint32_t>(op.a[0])[lane]);
      return 0;
    });
  });
  return Flow::kNext;
}

void DecodeInit(Decoder& d) {
  BarrierForm& form = d.MakeExtra<BarrierForm>();
  TakeCommon(d, form);
  form.address = d.Address(d.operand(0));
  d.PushSource(1, Type::kU32);
  d.op.handler = Init;
}

Flow Invalidate(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BarrierForm>();
  ForEachLane(mask, [&](int lane) {
    const BarrierRef barrier = Resolve(w, form, lane);
    if (Sanitizer* sanitizer = Engines::Of(w).sanitizer()) {
      Sanitizer::Step step =
          sanitizer->ThreadStep(w.Here(lane), "invalidates the mbarrier in", true);
      // A use of the mbarrier is over once it was executed: what it signals was observed.
      Knowledge known = sanitizer->Of(w.Here(lane));
      known.happened.Join(known.executed);
      step.knowledge = &known;
      sanitizer->Shared(*barrier.owner, barrier.offset, 8, step);
    }
    CtaState::Of(*barrier.owner).DestroyBarrier(w.Here(lane), barrier.offset);
  });
  return Flow::kNext;
}

void DecodeInvalidate(Decoder& d) {
  BarrierForm& form = d.MakeExtra<BarrierForm>();
  TakeCommon(d, form);
  form.address = d.Address(d.operand(0));
  d.op.handler = Invalidate;
}

Flow ExpectTx(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BarrierForm>();
  ForEachLane(mask, [&](int lane) {
    const BarrierRef barrier = Resolve(w, form, lane);
    CheckInitialised(w.Here(lane), barrier, Proxy::kGeneric);
    ExpectTransactions(w.Here(lane), barrier, w.Reg<uint32_t>(op.a[0])[lane]);
  });
  return Flow::kNext;
}

Flow CompleteTx(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BarrierForm>();
  ForEachLane(mask, [&](int lane) {
    const BarrierRef barrier = Resolve(w, form, lane);
    CheckInitialised(w.Here(lane), barrier, Proxy::kGeneric);
    CompleteByThread(w.Here(lane), barrier, w.Reg<uint32_t>(op.a[0])[lane]);
  });
  return Flow::kNext;
}

template <Handler handler>
void DecodeTransactions(Decoder& d) {
  BarrierForm& form = d.MakeExtra<BarrierForm>();
  TakeCommon(d, form);
  form.address = d.Address(d.operand(0));
  d.PushSource(1, Type::kU32);
  d.op.handler = handler;
}

// Operands: [0] state destination or none, [1] count or transaction bytes or none.
Flow ArriveHandler(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BarrierForm>();
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const BarrierRef barrier = Resolve(w, form, lane);
    CheckInitialised(w.Here(lane), barrier, Proxy::kGeneric);
    int64_t count = 1;
    if (op.a[1] != kNoSlot) {
      const uint32_t operand = w.Reg<uint32_t>(op.a[1])[lane];
      if (form.form == CountForm::kExpect) {
        ExpectTransactions(issuer, barrier, operand);
      } else {
        count = operand;
      }
    }
    const uint64_t token =
        ArriveByThread(issuer, barrier, count, form.drop, form.form == CountForm::kNoComplete);
    if (op.a[0] != kNoSlot) w.Reg<uint64_t>(op.a[0])[lane] = token;
  });
  return Flow::kNext;
}

template <bool drop>
void DecodeArrive(Decoder& d) {
  BarrierForm& form = d.MakeExtra<BarrierForm>();
  form.drop = drop;
  if (d.mods.Take("expect_tx")) form.form = CountForm::kExpect;
  if (d.mods.Take("noComplete")) form.form = CountForm::kNoComplete;
  TakeCommon(d, form);
  // The state destination may be absent, `_` or a register.
  const bool has_state = d.operand(0).kind != ptx::Operand::Kind::kAddress;
  const bool keeps_state = has_state && d.operand(0).kind != ptx::Operand::Kind::kSink;
  d.Push(keeps_state ? d.Destination(d.operand(0), Type::kB64) : kNoSlot);
  const size_t next = has_state ? 1 : 0;
  form.address = d.Address(d.operand(next));
  d.Push(d.Has(next + 1) ? d.Source(d.operand(next + 1), Type::kU32) : kNoSlot);
  if (form.form == CountForm::kExpect && !d.Has(next + 1)) {
    d.Illegal("expect_tx needs a byte count");
  }
  d.op.handler = ArriveHandler;
}

std::string DescribeWait(const Warp& warp, const WaitInfo& info) {
  const uint32_t address = static_cast<uint32_t>(info.address);
  const Cta* owner = warp.cta.cluster.SharedOwner(address);
  const BarrierEntry* entry =
      owner ? CtaState::Of(*owner).FindBarrier(address & 0xFFFFFF) : nullptr;
  if (!entry) return "which is no mbarrier";
  const Mbarrier& object = entry->object;
  return (info.detail < 0 ? std::string("by token") : "parity " + std::to_string(info.detail)) +
         "; it runs phase " + std::to_string(object.completed_phases()) + " (parity " +
         std::to_string(object.completed_phases() & 1) + ") and awaits " +
         std::to_string(object.pending()) + " of " + std::to_string(object.expected()) +
         " arrivals and " + std::to_string(object.transactions()) + " bytes";
}

// Returns whether the phase that a lane asks for is over. Operand [1] is a parity or a state token.
bool IsDone(Warp& w, const Op& op, const BarrierForm& form, int lane, const BarrierRef& barrier) {
  const Issuer issuer = w.Here(lane);
  const Mbarrier& object = EntryOf(issuer, barrier).object;
  if (form.parity) {
    // The PTX ISA knows 0 and 1; Triton passes -1 for 1, and the hardware takes the lowest bit.
    return object.ParityDone(w.Reg<uint32_t>(op.a[1])[lane] & 1);
  }
  return Located(issuer, barrier.address(), "shared memory",
                 [&] { return object.TokenDone(w.Reg<uint64_t>(op.a[1])[lane]); });
}

template <bool may_block>
Flow Wait(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<BarrierForm>();
  uint32_t done = 0;
  BarrierRef blocked;
  int64_t parity = -1;
  ForEachLane(mask, [&](int lane) {
    const BarrierRef barrier = Resolve(w, form, lane);
    if (barrier.owner != &w.cta) {
      Fail(w.Here(lane), "mbarrier", "only the CTA that holds an mbarrier may wait for it",
           barrier.address(), "shared memory");
    }
    CheckInitialised(w.Here(lane), barrier, Proxy::kGeneric);
    if (IsDone(w, op, form, lane, barrier)) {
      done |= 1u << lane;
      ObserveCompletion(w, lane, barrier);
    } else {
      blocked = barrier;
      if (form.parity) parity = w.Reg<uint32_t>(op.a[1])[lane];
    }
  });
  if (done == mask) {
    w.SetPredicate(op.a[0], mask, done);
    return Flow::kNext;
  }
  WaitInfo info;
  info.object = "mbarrier";
  info.address = blocked.address();
  info.detail = parity;
  info.describe = DescribeWait;
  info.timed = true;
  if (may_block && !w.WaitExpired()) return w.WaitOn(info);
  w.SetPredicate(op.a[0], mask, done);
  return w.Polls(info);
}

template <bool may_block>
void DecodeWait(Decoder& d) {
  BarrierForm& form = d.MakeExtra<BarrierForm>();
  form.parity = d.mods.Take("parity");
  TakeCommon(d, form);
  d.op.order |= kWaits;
  d.Push(d.PredicateDestination(d.operand(0)));
  form.address = d.Address(d.operand(1));
  d.PushSource(2, form.parity ? Type::kU32 : Type::kB64);
  if (may_block && d.Has(3)) d.Source(d.operand(3), Type::kU32);  // suspend-time hint
  d.op.handler = Wait<may_block>;
}

Flow PendingCount(Warp& w, const Op& op, uint32_t mask) {
  ForEachLane(mask, [&](int lane) {
    const uint64_t token = w.Reg<uint64_t>(op.a[1])[lane];
    w.Reg<uint32_t>(op.a[0])[lane] = static_cast<uint32_t>(Mbarrier::PendingOfToken(token));
  });
  return Flow::kNext;
}

void DecodePendingCount(Decoder& d) {
  d.mods.Take("b64");
  d.PushDestination(0, Type::kU32);
  d.PushSource(1, Type::kB64);
  d.op.handler = PendingCount;
}

}  // namespace

void RegisterMbarrier() {
  FamilyRegistry::Add("mbarrier.init", DecodeInit);
  FamilyRegistry::Add("mbarrier.inval", DecodeInvalidate);
  FamilyRegistry::Add("mbarrier.expect_tx", DecodeTransactions<ExpectTx>);
  FamilyRegistry::Add("mbarrier.complete_tx", DecodeTransactions<CompleteTx>);
  FamilyRegistry::Add("mbarrier.arrive", DecodeArrive<false>);
  FamilyRegistry::Add("mbarrier.arrive_drop", DecodeArrive<true>);
  FamilyRegistry::Add("mbarrier.test_wait", DecodeWait<false>);
  FamilyRegistry::Add("mbarrier.try_wait", DecodeWait<true>);
  FamilyRegistry::Add("mbarrier.pending_count", DecodePendingCount);
}

}  // namespace tilelang::emulator
