// Vector clocks: who knows how far everybody else has come.
#ifndef TILELANG_EMULATOR_SANITIZER_CLOCK_H_
#define TILELANG_EMULATOR_SANITIZER_CLOCK_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace tilelang::emulator {

// Anything whose progress can be waited for: a warp, an mbarrier (its completed phases), the
// tcgen05 pipe of a thread (its instructions), a thread's bulk or cp.async groups, ...
using ActorId = uint16_t;
constexpr ActorId kNoActor = 0xFFFF;

// Maps each actor to the latest of its steps that is known to have happened; 0 means none.
class VectorClock {
 public:
  uint32_t At(ActorId actor) const { return actor < steps_.size() ? steps_[actor] : 0; }
  void Raise(ActorId actor, uint32_t step) {
    if (actor >= steps_.size()) steps_.resize(actor + 1, 0);
    steps_[actor] = std::max(steps_[actor], step);
  }
  void Join(const VectorClock& other) {
    if (other.steps_.size() > steps_.size()) steps_.resize(other.steps_.size(), 0);
    for (size_t i = 0; i < other.steps_.size(); ++i) {
      steps_[i] = std::max(steps_[i], other.steps_[i]);
    }
  }
  // Returns whether this clock knows everything that `other` knows.
  bool Covers(const VectorClock& other) const {
    for (size_t i = 0; i < other.steps_.size(); ++i) {
      if (At(static_cast<ActorId>(i)) < other.steps_[i]) return false;
    }
    return true;
  }
  bool empty() const { return steps_.empty(); }
  void Clear() { steps_.clear(); }

 private:
  std::vector<uint32_t> steps_;
};

// The knowledge of the clusters of a grid: a clock for each, by index. Copies share their clocks.
class GridClock {
 public:
  // nullptr: nothing.
  const VectorClock* At(uint64_t cluster) const {
    return clocks_ && cluster < clocks_->size() ? (*clocks_)[cluster].get() : nullptr;
  }
  void Raise(uint64_t cluster, const VectorClock& clock);
  void Join(const GridClock& other);
  bool empty() const { return !clocks_; }

 private:
  using Clocks = std::vector<std::shared_ptr<const VectorClock>>;
  std::shared_ptr<const Clocks> clocks_;
};

// The scopes of the memory model that differ here. Each contains the scopes before it.
enum class Scope : uint8_t { kCta, kCluster, kGpu };
constexpr int kScopes = 3;

// The steps that happened before a memory fence.
struct Covered {
  VectorClock happened;
  GridClock grid;

  bool empty() const { return happened.empty(); }
  void Join(const Covered& other) {
    happened.Join(other.happened);
    grid.Join(other.grid);
  }
};

// The knowledge of a thread, and the part of it that a proxy fence has made visible to the async
// proxy.
struct Knowledge {
  VectorClock happened;
  VectorClock fenced;
  GridClock grid;  // of other clusters
  // `tensor`: the steps before later tcgen05 operations of this thread. `passed`: the steps that
  // later synchronisation passes on to the tcgen05 operations of other threads (tcgen05.fence).
  VectorClock tensor;
  VectorClock passed;
  // Steps that have certainly been executed before, although no memory order follows from that: the
  // steps of issuers of asynchronous work, for threads that have observed its completion.
  VectorClock executed;
  // The steps that memory fences of each scope, or of a wider one, have covered. Relaxed stores and
  // atomics after the fences make them known.
  std::array<Covered, kScopes> performed;

  const Covered& PerformedFor(Scope scope) const { return performed[static_cast<int>(scope)]; }

  // Takes over what another thread made known: all but `tensor`, which is of this thread alone.
  void Join(const Knowledge& other) {
    happened.Join(other.happened);
    fenced.Join(other.fenced);
    passed.Join(other.passed);
    executed.Join(other.executed);
    grid.Join(other.grid);
    for (int scope = 0; scope < kScopes; ++scope) performed[scope].Join(other.performed[scope]);
  }
  void Clear() { *this = Knowledge(); }
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_CLOCK_H_
