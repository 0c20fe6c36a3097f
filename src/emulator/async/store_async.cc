// Instruction families st.async and red.async: one thread's value goes to shared memory of the
// cluster and completes transactions of an mbarrier there, or, without one, to global memory.
#include <cstring>
#include <string>

#include "emulator/async/bulk_transfer.h"
#include "emulator/core/algebra.h"
#include "emulator/core/families.h"

namespace tilelang::emulator {
namespace {

struct StoreForm {
  AddressOperand destination;
  AddressOperand barrier;
  Space space = Space::kGeneric;
  uint32_t element_bytes = 4;
  bool reduces = false;
  ReduceOp reduce = ReduceOp::kAdd;
  TensorType type = TensorType::kU32;
};

// The values of a lane, operands [0..] in turn.
std::vector<uint8_t> ValuesOf(Warp& w, const Op& op, const StoreForm& form, int count, int lane) {
  std::vector<uint8_t> values(count * form.element_bytes);
  for (int i = 0; i < count; ++i) {
    uint64_t bits = form.element_bytes == 8   ? w.Reg<uint64_t>(op.slots[i])[lane]
                    : form.element_bytes == 4 ? w.Reg<uint32_t>(op.slots[i])[lane]
                                              : w.Reg<uint16_t>(op.slots[i])[lane];
    std::memcpy(values.data() + i * form.element_bytes, &bits, form.element_bytes);
  }
  return values;
}

template <int count>
Flow Store(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<StoreForm>();
  const char* name = form.reduces ? "red.async" : "st.async";
  const uint32_t bytes = count * form.element_bytes;
  const Delivery delivery{name,
                          name,
                          form.reduces ? "red.async reduces into" : "st.async writes",
                          bytes,
                          Proxy::kGeneric,
                          form.reduces,
                          {},
                          AsyncWork::Kind::kRemoteStore};
  ForEachLane(mask, [&](int lane) {
    const Issuer issuer = w.Here(lane);
    const uint32_t destination = ToSharedAddress(w, lane, form.space, form.destination.At(w, lane));
    CheckAligned(issuer, "the destination of an asynchronous store", destination, bytes);
    const BarrierRef barrier = ResolveBarrier(w, lane, form.space, form.barrier.At(w, lane));
    std::vector<LoadTarget> targets = LoadTargets(w, lane, destination, barrier, false, 0);
    if (targets[0].cta != barrier.owner) {
      Fail(issuer, "illegal-operand",
           std::string("the destination of ") + name + " and its mbarrier must lie in one CTA",
           destination, "shared memory");
    }
    IssueLoad(
        w, lane, delivery, std::move(targets), bytes,
        [values = ValuesOf(w, op, form, count, lane)](Loaded& loaded) { loaded.bytes = values; },
        [&form](const std::vector<uint8_t>& data, uint8_t* shared, uint32_t offset) {
          if (form.reduces) {
            Reduce(form.reduce, form.type, data.data(), shared + offset, form.element_bytes, false);
          } else {
            CopyBytes(shared + offset, data.data(), data.size());
          }
        });
  });
  return Flow::kNext;
}

// Stores to global memory, at any time until the kernel ends: no mechanism tells that the store is
// complete. A thread that acquires a released value is ordered after the earlier accesses of the
// storing thread.
Flow StoreGlobal(Warp& w, const Op& op, uint32_t mask) {
  const auto& form = op.Extra<StoreForm>();
  Engines& engines = Engines::Of(w);
  Cluster& cluster = w.cta.cluster;
  ForEachLane(mask, [&](int lane) {
    PendingStep step;
    step.issuer = w.Here(lane);
    step.name = form.reduces ? "red.async" : "st.async";
    if (Sanitizer* sanitizer = engines.sanitizer()) {
      step.order = {engines.ActorOf(ActorKind::kAsyncStore, step.issuer, step.name, false), 1,
                    sanitizer->Snapshot(step.issuer), op.order};
    }
    step.act = [&cluster, &form, issuer = step.issuer, name = step.name,
                address = form.destination.At(w, lane), values = ValuesOf(w, op, form, 1, lane)] {
      const AccessKind kind = form.reduces ? AccessKind::kAtomic : AccessKind::kWrite;
      uint8_t* target = GlobalAccess(cluster, issuer, address, form.element_bytes,
                                     form.element_bytes, kind, Proxy::kGeneric, name);
      if (form.reduces) {
        Reduce(form.reduce, form.type, values.data(), target, form.element_bytes, false);
      } else {
        CopyBytes(target, values.data(), values.size());
      }
    };
    engines.QueueFree(std::move(step));
  });
  return Flow::kNext;
}

// Space and completion of the forms with an mbarrier.
void TakeCompletion(Decoder& d, StoreForm& form, const char* name) {
  d.mods.Take("mbarrier::complete_tx::bytes");
  form.space = d.mods.TakeSpace();
  if (form.space != Space::kGeneric && form.space != Space::kShared) {
    d.Illegal(std::string(name) + " on an mbarrier writes .shared::cluster memory");
  }
}

// Takes scope and order of the forms without an mbarrier.
void TakeGlobalOrder(Decoder& d, StoreForm& form, const char* name) {
  form.space = d.mods.TakeSpace();
  if (form.space != Space::kGeneric && form.space != Space::kGlobal) {
    d.Illegal(std::string(name) + " without an mbarrier writes .global memory");
  }
  d.mods.Take("mmio");
  const bool relaxed = form.reduces && d.mods.Take("relaxed");
  if (!relaxed && !d.mods.Take("release")) {
    d.Illegal(std::string(name) + " without an mbarrier needs .release" +
              (form.reduces ? " or .relaxed" : ""));
  }
  if (d.mods.TakeOneOf({"gpu", "sys"}).empty()) {
    d.Illegal(std::string(name) + " without an mbarrier needs .gpu or .sys");
  }
  d.op.order = static_cast<uint8_t>(kStrong | kGpuScope | (relaxed ? 0 : kRelease));
  d.MarkCommunicates();
}

void TakeGlobalOperands(Decoder& d, StoreForm& form, Type type) {
  form.element_bytes = static_cast<uint32_t>(TypeBits(type)) / 8;
  form.destination = d.Address(d.operand(0));
  d.PushSource(1, type);
  d.op.handler = StoreGlobal;
}

void TakeOperands(Decoder& d, StoreForm& form, Type type, int count) {
  form.destination = d.Address(d.operand(0));
  form.barrier = d.Address(d.operand(2));
  const auto values = d.Elements(d.operand(1));
  if (values.size() != static_cast<size_t>(count)) {
    d.Illegal(std::to_string(values.size()) + " values given, " + std::to_string(count) +
              " needed");
  }
  for (const ptx::Operand* value : values) d.Push(d.Source(*value, type));
}

void DecodeStore(Decoder& d) {
  StoreForm& form = d.MakeExtra<StoreForm>();
  if (!d.mods.Has("mbarrier::complete_tx::bytes")) {
    TakeGlobalOrder(d, form, "st.async");
    const Type type = d.mods.TakeType();
    if (TypeBits(type) < 16 || TypeBits(type) > 64) {
      d.Illegal("st.async to global memory stores an element of 16, 32 or 64 bits");
    }
    return TakeGlobalOperands(d, form, type);
  }
  TakeCompletion(d, form, "st.async");
  if (!d.mods.Take("weak")) d.mods.Take("cluster");
  const int count = d.mods.TakeVector();
  const Type type = d.mods.TakeType();
  form.element_bytes = static_cast<uint32_t>(TypeBits(type)) / 8;
  if ((form.element_bytes != 4 && form.element_bytes != 8) || count * form.element_bytes > 16) {
    d.Illegal("st.async stores 1, 2 or 4 elements of 32 bits, or 1 or 2 of 64 bits");
  }
  TakeOperands(d, form, type, count);
  d.op.handler = count == 1 ? Store<1> : count == 2 ? Store<2> : Store<4>;
}

// Returns whether red.async has the operation for this PTX type.
bool AsyncReductionExists(ReduceOp op, Type type) {
  switch (op) {
    case ReduceOp::kInc:
    case ReduceOp::kDec:
      return type == Type::kU32;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return type == Type::kU32 || type == Type::kS32;
    case ReduceOp::kAdd:
      return type == Type::kU32 || type == Type::kS32 || type == Type::kU64 || type == Type::kS64;
    default:
      return type == Type::kB32;
  }
}

void DecodeReduce(Decoder& d) {
  StoreForm& form = d.MakeExtra<StoreForm>();
  form.reduces = true;
  const bool on_mbarrier = d.mods.Has("mbarrier::complete_tx::bytes");
  if (on_mbarrier) {
    TakeCompletion(d, form, "red.async");
    if (!d.mods.Take("relaxed") || !d.mods.Take("cluster")) {
      d.Illegal("red.async on an mbarrier needs .relaxed.cluster");
    }
  } else {
    TakeGlobalOrder(d, form, "red.async");
  }
  const auto reduce =
      ParseReduceOp(d.mods.TakeOneOf({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
  const Type type = d.mods.TakeType();
  if (!reduce || !AsyncReductionExists(*reduce, type)) {
    d.Illegal("this operation of red.async does not exist for this type");
  }
  form.reduce = *reduce;
  form.type = *ReduceTypeOf(type);
  if (!on_mbarrier) return TakeGlobalOperands(d, form, type);
  form.element_bytes = static_cast<uint32_t>(TypeBits(type)) / 8;
  TakeOperands(d, form, type, 1);
  d.op.handler = Store<1>;
}

}  // namespace

void RegisterAsyncStores() {
  FamilyRegistry::Add("st.async", DecodeStore);
  FamilyRegistry::Add("red.async", DecodeReduce);
}

}  // namespace tilelang::emulator
