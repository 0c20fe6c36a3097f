// The sanitizer of one cluster: finds accesses to shared, tensor and global memory that nothing
// orders.
//
// Every access is a step of an actor (a warp, the tcgen05 pipe of a thread, a bulk group, ...), and
// every warp knows by vector clock which steps have happened for it. Barriers, mbarriers and
// completion mechanisms carry that knowledge; an access to bytes whose earlier use the issuer does
// not know to be over is a race. Lanes of a warp share this clock; for shared memory each also
// knows since when it has not met the others. Operations of tcgen05 on tensor memory are ordered by
// a clock of their own, which tcgen05.fence connects with the others. Reports have the kinds
// "race", "missing-wait", "missing-proxy-fence", "missing-tcgen05-fence" and "missed-phase".
#ifndef TILELANG_EMULATOR_SANITIZER_SANITIZER_H_
#define TILELANG_EMULATOR_SANITIZER_SANITIZER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/memory/tensor_memory.h"
#include "emulator/sanitizer/clock.h"
#include "emulator/sanitizer/grid_shadow.h"
#include "emulator/sanitizer/shadow.h"

namespace tilelang::emulator {

// The kind of an actor, which decides the advice in messages.
enum class ActorKind : uint8_t {
  kWarp,          // generic accesses of a warp
  kTransactions,  // bulk loads that complete on an mbarrier: a step is one phase
  kPipe,          // the tcgen05 pipe of a thread: a step is one instruction
  kBulkGroup,     // reads of the bulk stores of a thread: a step is one group
  kBulkWrite,     // their writes
  kCopyGroup,     // cp.async of a warp: a step is one group
  kTensorAlloc,   // tcgen05.alloc of a warp
  kTensorLoad,    // tcgen05.ld of a warp: a step is the loads up to one wait
  kTensorStore,   // tcgen05.st of a warp, likewise
  kWarpgroup,     // wgmma of a warpgroup: a step is one wgmma-group
  kAsyncStore,    // st.async and red.async of a thread to global memory: never known to be over
  kGrid,          // the grid before this one: its only step is its end
};

// The step of an engine when it acts: a step of an actor, and the knowledge of the issuer when it
// issued.
struct EngineStep {
  ActorId actor = kNoActor;
  uint32_t step = 0;
  std::shared_ptr<const Knowledge> knowledge;
  uint8_t order = 0;  // MemoryOrder of its access to global memory: a release tells what is known
};

// A wait for the running phase of an mbarrier's predecessor succeeded.
struct PhaseWait {
  Issuer issuer;
  ActorId actor = kNoActor;
  uint32_t step = 0;
};

// A load of shared memory by the lanes of a warp.
struct WarpLoad {
  uint32_t step = 0;
  uint32_t op = 0;
  uint32_t mask = 0;  // the lanes; 0: no load
  uint32_t bytes = 0;
  uint32_t rank = 0;  // of the CTA whose memory it is
  std::array<uint32_t, kLanes> offsets{};

  // Returns whether `lane` reads the byte at `offset` as part of the access `epoch`.
  bool Covers(const Epoch& epoch, int lane, uint32_t offset) const {
    return (mask >> lane & 1) && step == epoch.step && op == epoch.op &&
           offset - offsets[lane] < bytes;
  }
};

class Sanitizer {
 public:
  explicit Sanitizer(Cluster& cluster);

  ActorId NewActor(ActorKind kind, std::string name);

  // Knowledge of the issuer's warp.
  Knowledge& Of(const Issuer& issuer) { return StateOf(issuer).knowledge; }
  // The issuer makes what it knows, its own past included, available to `into`. A relaxed issuer
  // (kRelaxed) releases what its fences have covered, and its next fence acquires. These three and
  // all strong accesses are in strong_access.cc.
  void Release(const Issuer& issuer, Knowledge* into);
  void Acquire(const Issuer& issuer, const Knowledge& from);
  // The issuer observed that `actor` has come to `step`.
  void Learn(const Issuer& issuer, ActorId actor, uint32_t step);
  // The same of tcgen05 operations: its own later ones are ordered after that step.
  void LearnTensor(const Issuer& issuer, ActorId actor, uint32_t step);
  // tcgen05.fence::before_thread_sync and ::after_thread_sync.
  void TensorFenceBefore(const Issuer& issuer);
  void TensorFenceAfter(const Issuer& issuer);
  // fence.proxy.async: all the issuer knows of becomes visible to the async proxy.
  void ProxyFence(const Issuer& issuer);
  // fence.mbarrier_init: what the issuer has done itself becomes visible to the async proxy, and
  // relaxed arrivals tell of it.
  void InitFence(const Issuer& issuer);
  // Returns the knowledge of the issuer now, for an engine that acts later. It separates later
  // steps of the issuer from earlier ones.
  std::shared_ptr<const Knowledge> Snapshot(const Issuer& issuer);
  // Returns the steps before the steps of `pipe`. For tcgen05 they are its operations on tensor
  // memory, which are committed with it; for wgmma they are everything that its warps have
  // executed.
  VectorClock& OrderOfPipe(ActorId pipe) { return pipes_[pipe]; }
  PhaseWait WaitBy(const Issuer& issuer);
  // Reports waits for the phase before the one that `issuer` completes, which nothing orders before
  // this: `known` is what happened before.
  void CheckPhaseWaits(const Issuer& issuer, const std::vector<PhaseWait>& waits,
                       const VectorClock& known, uint64_t address);
  // griddepcontrol.wait: the grid that this one may overlap with has ended.
  void WaitForPreviousGrid(const Issuer& issuer) { Learn(issuer, kPreviousGrid, 1); }
  // griddepcontrol.launch_dependents: what the CTA's first one has released is visible to grids
  // that may overlap with this one.
  void LaunchDependents(const Issuer& issuer);
  void OnBarrier(SyncEvent event, uint64_t id, const Issuer& issuer);
  // Lanes of the issuer's warp have met.
  void OnWarpSync(const Issuer& issuer, uint32_t lanes);
  // fence or membar: what was read by relaxed loads of its scope is known, and later relaxed stores
  // and atomics of its scope tell what is known now.
  void Fence(const Issuer& issuer);

  // Accesses of threads (ordinary instructions).
  void ThreadShared(const Access& access);
  void WarpShared(const WarpAccess& access);
  void WarpGlobal(const WarpAccess& access);
  // An engine's access to global memory, when it acts.
  void EngineGlobal(const Access& access, const EngineStep& engine);
  // The bulk stores of the group `step` of `actor` read shared memory of the issuer's CTA.
  void RememberStore(const Issuer& issuer, ActorId actor, uint32_t step);
  // The CTA ends: reports bulk stores that may still read its shared memory, and accesses of it by
  // other CTAs that nothing orders before.
  void OnExit(const Cta& cta);
  // A step of `actor` that touches memory on behalf of `issuer`. `what` names the instruction's
  // action, e.g. "the bulk copy writes". `in_order_with` as in Touch.
  struct Step {
    Issuer issuer;
    const char* what = "";
    ActorId actor = kNoActor;
    uint32_t step = 0;
    ActorId in_order_with = kNoActor;
    bool write = false;
    bool generic = false;
    bool strong = false;
    bool on_mbarrier = false;              // uses it, however it is accessed
    bool frees = false;                    // tensor memory
    const uint32_t* met = nullptr;         // see Touch
    const Knowledge* knowledge = nullptr;  // null: the issuer's now
  };
  Step ThreadStep(const Issuer& issuer, const char* what, bool write);
  // Notes that the access of the owner's shared memory must be over before the owner ends. The
  // owner learns of it through others. The same holds for all accesses by other CTAs.
  void MustEndBefore(const Cta& owner, const Step& step);
  void Shared(const Cta& owner, uint32_t offset, uint32_t bytes, const Step& step);
  // Checks tcgen05 operations, which have an order of their own.
  void Tensor(const Cta& owner, int lane, int lanes, int column, int columns, const Step& step);
  // The columns were freed.
  void ForgetTensor(const Cta& owner, int column, int columns);
  // The same for `bytes` bytes at each of `offsets`.
  void SharedUnits(const Cta& owner, const std::vector<uint32_t>& offsets, uint32_t bytes,
                   const Step& step);

 private:
  struct WarpState {
    ActorId actor = kNoActor;
    Knowledge knowledge;
    // The step up to which each lane has met the others; `meets` tells that there is news.
    std::array<uint32_t, kLanes> met{};
    bool meets = false;
    // Knowledge from relaxed reads of each scope, which a fence of that scope makes known.
    std::array<Knowledge, kScopes> pending;
    bool has_pending = false;
    // The phase of each barrier at which the warp arrived last.
    std::array<uint64_t, kClusterBarrierId + 1> arrived{};
    // The last loads of shared memory at arbitrary addresses, a ring.
    std::array<WarpLoad, 4> loads{};
    uint32_t next_load = 0;
  };
  // Knowledge from the arrivals of one phase of a barrier. Two phases are alive at a time: no
  // thread arrives for the phase after the next one before all threads have passed.
  struct BarrierPhase {
    uint64_t phase = 0;
    Knowledge gathered;
    std::array<Knowledge, kScopes> pending;  // for fences after the barrier
    bool has_pending = false;
  };
  struct ActorInfo {
    ActorKind kind;
    std::string name;
    uint32_t waited = 0;  // tcgen05 operations: up to this step a wait has covered them
  };

  static constexpr int kMaxWarps = 32;
  // The first actor, where there is such a grid.
  static constexpr ActorId kPreviousGrid = 0;

  WarpState& StateOf(const Issuer& issuer);
  void Advance(WarpState& state);
  void Learn(WarpState& state, const Issuer& issuer, const Knowledge& from);
  // Strong accesses carry knowledge by their location: reads of `bytes` bytes receive, writes
  // publish. `replaces`: a store, not an atomic.
  void Receive(const Issuer& issuer, SyncLocations& locations, uint64_t address, uint32_t bytes);
  void Publish(const Issuer& issuer, SyncLocations& locations, uint64_t address, uint32_t bytes,
               bool replaces);
  void Tell(const Issuer& issuer, uint8_t order, const WarpState& state,
            SyncLocation& location) const;
  void EngineTells(const Issuer& issuer, const EngineStep& engine, uint64_t address);
  static Knowledge ToldByFences(const WarpState& state, Scope scope);
  uint64_t CtaKey(const Issuer& issuer) const;  // the number of its CTA in the grid
  // `values`: what is written, from `address` on, or null.
  void TouchGlobal(const Issuer& issuer, uint64_t address, uint32_t bytes, GridAccess access,
                   const uint8_t* values = nullptr);
  // Conflicts with what the grid does that this one may overlap with.
  void CheckPreviousGrid(const Issuer& issuer, uint64_t line, const GridAccess& access,
                         const Knowledge& knowledge);
  void TouchLine(const Issuer& issuer, uint64_t line, GridAccess& access, const uint8_t* values);
  GridAccess GlobalStep(const Issuer& issuer, AccessKind kind, uint8_t order);
  SharedShadow& ShadowOf(const Cta& owner);
  void FoundExit(const Issuer& issuer, const Cta& owner);
  Touch TouchOf(const Step& step, const Cta* owner);  // of the shared memory; or null
  void TouchShared(SharedShadow& shadow, const Cta& owner, uint32_t offset, uint32_t bytes,
                   const Touch& touch, const Step& step);
  // The tcgen05.fence that would order the two, or null if more is missing.
  const char* MissingFence(const Hazard& hazard, const Step& step);
  // Operations on tensor memory that are synchronised, but not as the PTX ISA demands.
  void ReportFence(const Hazard& hazard, const Step& step, const std::string& what,
                   const char* fence, uint64_t address);
  void Report(const Hazard& hazard, const Step& step, const std::string& place, uint64_t address,
              const char* buffer);
  void Remember(const WarpAccess& load, const Step& step);
  // Returns whether the lane that writes at `offset` has read there itself, in the instruction with
  // which other lanes of its warp read. The instruction has read for all of them then.
  bool ReadTogether(const Hazard& hazard, const Step& step, const Cta& owner, uint32_t offset);
  uint32_t IndexOf(const Issuer& issuer) const;  // of its instruction
  // A report about the issuer's instruction; `earlier` is the index of the other one, or kNoOp.
  static constexpr uint32_t kNoOp = 0xFFFFFFFFu;
  void Found(const Issuer& issuer, const std::string& kind, const std::string& message,
             uint64_t address, const std::string& buffer, uint32_t earlier);
  std::string Describe(const Epoch& epoch) const;

  Cluster& cluster_;
  GridShadow* grid_;
  const Knowledge* engine_knowledge_ = nullptr;  // while an engine accesses global memory
  std::vector<ActorInfo> actors_;
  std::vector<WarpState> warps_;  // by rank * 32 + warp
  std::map<uint32_t, SharedShadow> shared_;
  std::map<uint32_t, TensorShadow> tensor_;
  // Barriers by rank and id; for barrier.cluster the rank is 0.
  std::map<std::pair<uint32_t, uint64_t>, std::array<BarrierPhase, 2>> barriers_;
  SyncLocations shared_locations_;  // by rank << 32 | offset
  struct BulkStore {
    Issuer issuer;
    uint32_t step = 0;
  };
  using Remote = BulkStore;
  // The last accesses of a CTA's shared memory by actors of others, by rank and actor.
  std::map<std::pair<uint32_t, ActorId>, Remote> remote_;
  std::set<uint32_t> ended_;                  // ranks
  std::set<uint32_t> launched_dependents_;    // ranks
  std::map<ActorId, BulkStore> bulk_stores_;  // the last of each thread
  std::map<ActorId, VectorClock> pipes_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_SANITIZER_H_
