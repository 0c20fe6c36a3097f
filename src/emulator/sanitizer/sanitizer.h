// The sanitizer of one cluster: finds accesses to shared, tensor and global memory that nothing
// orders.
//
// Every access is a step of an actor (a warp, the tcgen05 pipe of a thread, a bulk group, ...), and
// every warp knows by vector clock which steps have happened for it. Barriers, mbarriers and
// completion mechanisms carry that knowledge; an access to bytes whose earlier use the issuer does
// not know to be over is a race. Lanes of a warp share this clock; for shared memory each also
// knows since when it has not met the others. Errors have the kinds "race", "missing-wait" and
// "missing-proxy-fence".
#ifndef TILELANG_EMULATOR_SANITIZER_SANITIZER_H_
#define TILELANG_EMULATOR_SANITIZER_SANITIZER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/memory/tensor_memory.h"
#include "emulator/sanitizer/clock.h"
#include "emulator/sanitizer/grid_shadow.h"
#include "emulator/sanitizer/shadow.h"

namespace tilelang::emulator {

// What an actor is; decides the advice in messages.
enum class ActorKind : uint8_t {
  kCluster,       // to other clusters: a step ends with each release of gpu scope
  kWarp,          // generic accesses of a warp
  kTransactions,  // bulk loads that complete on an mbarrier: a step is one phase
  kPipe,          // the tcgen05 pipe of a thread: a step is one instruction
  kBulkGroup,     // bulk stores of a thread: a step is one group
  kCopyGroup,     // cp.async of a warp: a step is one group
  kTensorStore,   // tcgen05.st of a warp: a step is the stores up to one wait
  kWarpgroup,     // wgmma of a warpgroup: a step is one wgmma-group
};

class Sanitizer {
 public:
  explicit Sanitizer(Cluster& cluster);

  ActorId NewActor(ActorKind kind, std::string name);

  // Knowledge of the issuer's warp.
  Knowledge& Of(const Issuer& issuer) { return StateOf(issuer).knowledge; }
  // The issuer makes what it knows, its own past included, available to `into`. A relaxed issuer
  // (kRelaxed) releases what its fences have covered, and its next fence acquires.
  void Release(const Issuer& issuer, Knowledge* into);
  void Acquire(const Issuer& issuer, const Knowledge& from);
  // The issuer observed that `actor` has come to `step`.
  void Learn(const Issuer& issuer, ActorId actor, uint32_t step);
  // fence.proxy.async: all the issuer knows of becomes visible to the async proxy.
  void ProxyFence(const Issuer& issuer);
  void OnBarrier(SyncEvent event, uint64_t id, const Issuer& issuer);
  // Lanes of the issuer's warp have met.
  void OnWarpSync(const Issuer& issuer, uint32_t lanes);
  // fence or membar: what was read by relaxed loads is known, and later relaxed stores and atomics
  // tell what is known now.
  void Fence(const Issuer& issuer);

  // Accesses of threads (ordinary instructions).
  void ThreadShared(const Access& access);
  void WarpShared(const WarpAccess& access);
  void WarpGlobal(const WarpAccess& access);
  // An engine's access to global memory, when it acts.
  void EngineGlobal(const Access& access);
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
    const uint32_t* met = nullptr;         // see Touch
    const Knowledge* knowledge = nullptr;  // null: the issuer's now
  };
  Step ThreadStep(const Issuer& issuer, const char* what, bool write);
  void Shared(const Cta& owner, uint32_t offset, uint32_t bytes, const Step& step);
  void Tensor(const Cta& owner, int lane, int lanes, int column, int columns, const Step& step);
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
    Knowledge read;  // by relaxed loads, made known by the next fence
    // The phase of each barrier at which the warp arrived last.
    std::array<uint64_t, kClusterBarrierId + 1> arrived{};
  };
  // What arrivals of one phase of a barrier made known. Two phases are alive at a time: nobody
  // arrives for the next but one before all have passed.
  struct BarrierPhase {
    uint64_t phase = 0;
    Knowledge gathered;
  };
  struct ActorInfo {
    ActorKind kind;
    std::string name;
  };

  WarpState& StateOf(const Issuer& issuer);
  void Advance(WarpState& state);
  void Learn(WarpState& state, const Issuer& issuer, const Knowledge& from);
  // Strong accesses of global memory carry knowledge by their location.
  void Receive(WarpState& state, const Issuer& issuer, uint64_t address, uint8_t order);
  void Publish(WarpState& state, uint64_t address, uint8_t order);
  // `values`: what is written, at `address` and behind, or null.
  void TouchGlobal(const Issuer& issuer, uint64_t address, uint32_t bytes, GridAccess access,
                   const uint8_t* values = nullptr);
  void TouchLine(const Issuer& issuer, uint64_t line, GridAccess& access, const uint8_t* values);
  GridAccess GlobalStep(const Issuer& issuer, AccessKind kind, uint8_t order);
  SharedShadow& ShadowOf(const Cta& owner);
  Touch TouchOf(const Step& step);
  void TouchShared(SharedShadow& shadow, const Cta& owner, uint32_t offset, uint32_t bytes,
                   const Touch& touch, const Step& step);
  [[noreturn]] void Report(const Hazard& hazard, const Step& step, const std::string& place,
                           uint64_t address, const char* buffer);
  std::string Describe(const Epoch& epoch) const;

  Cluster& cluster_;
  GridShadow* grid_;
  std::vector<ActorInfo> actors_;  // the first is the cluster as a whole, to other clusters
  uint32_t cluster_step_ = 1;
  std::vector<WarpState> warps_;  // by rank * 32 + warp
  std::map<uint32_t, SharedShadow> shared_;
  std::map<uint32_t, TensorShadow> tensor_;
  // By rank and id; for barrier.cluster the rank is 0.
  std::map<std::pair<uint32_t, uint64_t>, std::array<BarrierPhase, 2>> barriers_;
  std::map<std::pair<uint32_t, uint32_t>, Knowledge> atomics_;  // by rank and offset
};

// Passes accesses of threads and barriers on to the sanitizer of the cluster concerned.
AccessObserver* SanitizerObserver();

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_SANITIZER_H_
