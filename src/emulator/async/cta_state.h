// The state of the asynchronous units for one CTA: its mbarriers and its tensor memory.
#ifndef TILELANG_EMULATOR_ASYNC_CTA_STATE_H_
#define TILELANG_EMULATOR_ASYNC_CTA_STATE_H_

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/async/mbarrier.h"
#include "emulator/async/tcgen05_pair.h"
#include "emulator/async/tensor_map_edits.h"
#include "emulator/async/warpgroup.h"
#include "emulator/core/machine.h"
#include "emulator/memory/tensor_memory.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {

// An mbarrier by its place: the CTA that holds it and the offset in that CTA's window.
struct BarrierRef {
  Cta* owner = nullptr;
  uint32_t offset = 0;
  auto operator<=>(const BarrierRef&) const = default;

  uint32_t address() const { return owner->shared_base() + offset; }
};

struct BarrierEntry {
  Mbarrier object;
  Issuer created_by;
  // Used by the sanitizer: the knowledge that arrivals of the running phase and of completed phases
  // have released, and the actor whose steps are the phases in which bulk copies complete.
  Knowledge gathering;
  Knowledge completed;
  ActorId transactions = kNoActor;
  // The steps that happened before the running phase completes, arrivals or not, and the successful
  // waits for the phase before it.
  VectorClock reached;
  std::vector<PhaseWait> waits;
};

class CtaState : public CtaAsyncState {
 public:
  explicit CtaState(Cta& cta) : cta_(cta) {}
  static CtaState& Of(const Cta& cta) { return static_cast<CtaState&>(*cta.async); }

  void OnExit() override;

  // Fails when there is no mbarrier at `offset`, or its bytes were overwritten.
  BarrierEntry& Barrier(const Issuer& issuer, uint32_t offset);
  void CreateBarrier(const Issuer& issuer, uint32_t offset, int64_t count);
  void DestroyBarrier(const Issuer& issuer, uint32_t offset);
  // Null when no mbarrier is there; for reports.
  const BarrierEntry* FindBarrier(uint32_t offset) const;
  // Shows the state of the object in shared memory.
  void Publish(uint32_t offset, const BarrierEntry& entry);

  // Made when first used. `Existing` is null before.
  TensorMemory& tensor();
  TensorMemory* existing_tensor() { return tensor_.get(); }
  Issuer last_allocator;
  PairTurns pair;
  TensorMapEdits maps;
  Warpgroup& WarpgroupOf(const Warp& warp);
  // tcgen05.alloc, tcgen05.ld and tcgen05.wait::st that each warp has executed.
  std::array<uint32_t, 32> allocations{};
  std::array<uint32_t, 32> loads{};
  std::array<uint32_t, 32> store_waits{};

 private:
  Cta& cta_;
  std::map<uint32_t, BarrierEntry> barriers_;
  std::unique_ptr<TensorMemory> tensor_;
  std::map<uint32_t, Warpgroup> warpgroups_;  // by number
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_CTA_STATE_H_
