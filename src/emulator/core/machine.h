// The emulated machine while a kernel runs: warps, CTAs, clusters, and what handlers do with them.
#ifndef TILELANG_EMULATOR_CORE_MACHINE_H_
#define TILELANG_EMULATOR_CORE_MACHINE_H_

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/base/error.h"
#include "emulator/core/access.h"
#include "emulator/core/async.h"
#include "emulator/core/decoder.h"
#include "emulator/core/kernel.h"
#include "emulator/core/launch.h"
#include "emulator/core/op.h"
#include "emulator/core/register_checks.h"
#include "emulator/core/timing.h"
#include "emulator/memory/global.h"
#include "emulator/memory/shared.h"
#include "emulator/memory/zeroed_bytes.h"

namespace tilelang::emulator {

class CallStack;
class GridShadow;

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;
// Mostly it is all of them.
constexpr int LanesOf(uint32_t mask) { return mask == kAllLanes ? kLanes : std::popcount(mask); }

// The object that a split waits for. It is turned into text only for a deadlock report.
struct WaitInfo {
  const char* object = "";  // "mbarrier", "barrier 3", ...
  uint64_t address = 0;
  int64_t detail = 0;  // e.g. the parity
  std::string (*describe)(const Warp& warp, const WaitInfo& info) = nullptr;
  // A wait that ends by itself after a while (mbarrier.try_wait, nanosleep): when nothing else can
  // run, `expired` is set and the handler is called again to give up (e.g. return false).
  bool timed = false;
  bool expired = false;
};

// Lanes of a warp that run together. Splits with equal program counter, depth and resume state
// merge.
struct Split {
  uint32_t pc = 0;
  uint32_t mask = 0;
  uint32_t depth = 0;  // of calls
  // Scratch of the current instruction between retries; 0 when it starts.
  uint64_t resume = 0;
  bool waiting = false;
  WaitInfo wait;
  uint64_t last_run = 0;

  // Lanes that have exited leave their split empty until the warp's next turn.
  bool empty() const { return mask == 0; }
  bool runnable() const { return !waiting && !empty(); }
  // Returns whether this split runs first, so that its lanes reach the lanes of the other: out of
  // the deepest call, and from the lowest program counter.
  bool Before(const Split& other) const {
    return depth != other.depth ? depth > other.depth : pc < other.pc;
  }
  bool Meets(const Split& other) const {
    return pc == other.pc && depth == other.depth && resume == other.resume;
  }
  // The last poll of a spin loop that saw nothing new, and where it was.
  static constexpr uint32_t kNoPoll = 0xFFFFFFFFu;
  uint32_t poll_pc = kNoPoll;
  WaitInfo poll;
};

class Warp {
 public:
  Warp(Cta& cta, uint32_t index);
  ~Warp();

  template <typename T>
  T* Reg(uint32_t slot) {
    return reinterpret_cast<T*>(registers_ + slot);
  }
  template <typename T>
  const T* Reg(uint32_t slot) const {
    return reinterpret_cast<const T*>(registers_ + slot);
  }
  // Lanes where the predicate (negation applied) is true.
  uint32_t Predicate(uint32_t slot) const {
    uint32_t value = *Reg<uint32_t>(slot & ~1u);
    return (slot & 1) ? ~value : value;
  }
  void SetPredicate(uint32_t slot, uint32_t mask, uint32_t value) {
    if (slot == kNoSlot) return;
    uint32_t& target = *Reg<uint32_t>(slot);
    target = (target & ~mask) | (value & mask);
  }

  Cta& cta;
  const uint32_t index;
  uint32_t live = 0;      // lanes that exist and have not exited
  uint32_t existing = 0;  // lanes that the block has
  uint32_t carry = 0;     // CC.CF of each lane
  // barrier.cluster phase + 1 at which each lane arrived and has not waited yet; 0: none.
  uint64_t cluster_arrived_phase[kLanes] = {};
  const Op* op = nullptr;           // the instruction being executed
  uint64_t changes = 0;             // atomics that changed memory, and prints
  uint64_t polls = 0, news = 0;     // polls, and polls that differed from the one before
  bool away = false;                // in this round, by the will of a random schedule
  const uint8_t* stored = nullptr;  // what a plain store is about to write for one lane, or null

  Split& split() { return splits_[current_]; }
  const Split& split() const { return splits_[current_]; }
  const std::vector<Split>& splits() const { return splits_; }
  std::vector<Split>& splits() { return splits_; }
  // Returns the program counter of the instruction being executed.
  uint32_t Pc() const;
  bool Converged() const { return split().mask == live; }

  // Functions for handlers. Each returns the Flow that the handler must return.
  Flow WaitOn(const WaitInfo& info) {
    split().wait = info;
    return Flow::kWait;
  }
  // The current instruction is done, but may be the test of a spin loop: lets others run.
  Flow Polls(const WaitInfo& info);
  // The wait of the current instruction was timed and its time is over.
  bool WaitExpired() const { return split().waiting && split().wait.expired; }
  Flow Jump(uint32_t pc) {
    split().pc = pc;
    return Flow::kJump;
  }
  // Lanes in `taken` go to `pc`, the others of the split to the next instruction.
  Flow Diverge(uint32_t taken, uint32_t pc);
  // The lanes leave the current split and continue at `pc`, so many calls deeper.
  void SplitOff(uint32_t lanes, uint32_t pc, int deeper = 0);
  Flow Exit(uint32_t lanes);
  // Waits until all live lanes of the warp are here; a partial guard is an error. Handlers of
  // `.aligned` instructions call it first: `if (auto flow = w.Align(mask); flow != kNext) return
  // flow;`.
  Flow Align(uint32_t mask);
  // These lanes have waited for each other: tells the observer, if there is one.
  void Met(uint32_t lanes);

  // Made when first asked for: by the lint "ld-before-wait", by wgmma, by what loads what nothing
  // has written.
  RegisterChecks& register_checks() {
    if (!register_checks_) register_checks_ = MakeRegisterChecks(*this);
    return *register_checks_;
  }
  Issuer Here(int lane) const { return Issuer{&cta, op, static_cast<int>(index), lane}; }

  uint8_t* local(int lane);
  // Returns how many bytes of local memory the lane may use now.
  uint64_t local_bytes(int lane) const;
  // Returns the calls of a kernel that has stacks.
  CallStack& calls() { return *calls_; }
  const CallStack& calls() const { return *calls_; }
  // Ends timed waits as if their time were over; true if there were any.
  bool ExpireTimedWaits();
  // All its threads wait.
  bool Waits() const;
  // Fills registers, constants and specials for the start of a CTA.
  void Reset(uint32_t lanes);

 private:
  friend class WarpRunner;
  uint8_t* registers_ = nullptr;
  std::vector<uint64_t> storage_;
  std::unique_ptr<RegisterChecks> register_checks_;
  std::vector<Split> splits_;
  size_t current_ = 0;
  uint64_t split_clock_ = 0;
  ZeroedBytes local_;  // 32 lanes one after the other
  std::unique_ptr<CallStack> calls_;
};

// Threads that arrived at a named barrier (bar/barrier.cta).
struct NamedBarrier {
  static constexpr int kWarps = 32;
  uint32_t arrived = 0;         // threads of the current phase
  uint32_t lanes[kWarps] = {};  // the lanes of each warp among them; they may have exited since
  uint32_t expected = 0;        // 0: all threads of the CTA
  uint64_t phase = 0;
  uint32_t reduction_and = 1, reduction_or = 0, reduction_popc = 0;  // running
  uint32_t result = 0;                                               // of the last phase
  uint32_t result_and = 0, result_or = 0;
};

class Cta {
 public:
  Cta(Cluster& cluster, uint32_t rank);

  Cluster& cluster;
  const uint32_t rank;  // in the cluster
  Dim3 id{0, 0, 0};     // %ctaid
  uint64_t linear_id = 0;
  SharedMemory shared;
  std::vector<std::unique_ptr<Warp>> warps;
  NamedBarrier barriers[16];
  uint32_t live_threads = 0;
  std::unique_ptr<CtaAsyncState> async;

  void Reset();
  // Returns the base of the CTA's own 32-bit shared addresses: rank << 24 in a cluster launch.
  uint32_t shared_base() const { return rank << 24; }
};

class Cluster {
 public:
  explicit Cluster(Launch& launch);
  // Makes this object the cluster `index` of the grid, at its start.
  void Reset(uint64_t index);

  Launch& launch;
  uint64_t linear_id = 0;
  Dim3 id{0, 0, 0};
  std::vector<std::unique_ptr<Cta>> ctas;
  std::unique_ptr<AsyncEngines> engines;
  uint64_t engine_acts = 0;  // rounds in which they acted
  // barrier.cluster: how many of the threads that have not exited have arrived in this phase.
  uint64_t barrier_arrived = 0, barrier_phase = 0;
  GridShadow* grid_shadow = nullptr;  // with the sanitizer: of the host thread's clusters
  Timing* timing = nullptr;           // of timed launches
  // Counts how often each instruction of the kernel was executed, by all clusters that used this
  // object.
  std::vector<InstructionCount> counts;

  const Kernel& kernel() const { return launch.kernel; }
  // The CTA whose window holds the 32-bit shared address, or nullptr.
  Cta* SharedOwner(uint32_t address) {
    uint32_t rank = address >> 24;
    return rank < ctas.size() ? ctas[rank].get() : nullptr;
  }
};

[[noreturn]] void Fail(const Issuer& issuer, const std::string& kind, const std::string& message);
[[noreturn]] void Fail(const Issuer& issuer, const std::string& kind, const std::string& message,
                       uint64_t address, const std::string& buffer = "");
// Reports a finding of a check of ordering: an error, unless the launch suppresses or collects it.
void Report(const Issuer& issuer, const std::string& kind, const std::string& message);
// Reported once for each kind and line.
void Warn(const Issuer& issuer, const std::string& kind, const std::string& message);
// About memory that nothing has written, shared or global. Python adds the tile's name to the
// message where the address is in shared memory.
void WarnMemory(const Issuer& issuer, bool shared, const std::string& message, uint64_t address);
inline void WarnShared(const Issuer& issuer, const std::string& message, uint64_t address) {
  WarnMemory(issuer, true, message, address);
}
Where WhereOf(const Issuer& issuer);
// Returns the place of the kernel's instruction `op`.
Where PlaceOf(const Kernel& kernel, uint32_t op);

// Checked access for instructions and engines alike: bounds, alignment, uninitialised reads
// (warning), observer. Fails with a message that names space, address and buffer.
// 32-bit shared address (cluster encoding) -> host pointer.
uint8_t* SharedAccess(Cluster& cluster, const Issuer& issuer, uint32_t address, uint32_t bytes,
                      uint32_t align, AccessKind kind, Proxy proxy = Proxy::kGeneric,
                      const char* engine = "thread");
uint8_t* GlobalAccess(Cluster& cluster, const Issuer& issuer, uint64_t address, uint32_t bytes,
                      uint32_t align, AccessKind kind, Proxy proxy = Proxy::kGeneric,
                      const char* engine = "thread");
// Any space, for one lane of a warp. `space` kGeneric looks at the address.
uint8_t* ThreadAccess(Warp& warp, int lane, Space space, uint64_t address, uint32_t bytes,
                      uint32_t align, AccessKind kind);
// Returns whether something has written these bytes, as far as memory keeps account of it: shared
// memory, and outputs in global memory that were allocated for a kernel.
bool IsDefined(Warp& warp, Space space, uint64_t address, uint32_t bytes);
// Returns whether the address lies in shared memory.
bool IsShared(Space space, uint64_t address);
// Generic or .shared address of a lane -> 32-bit shared address; fails when it is not shared.
uint32_t ToSharedAddress(Warp& warp, int lane, Space space, uint64_t address);

inline uint64_t AddressOperand::At(const Warp& warp, int lane) const {
  uint64_t base = wide ? warp.Reg<uint64_t>(slot)[lane] : warp.Reg<uint32_t>(slot)[lane];
  uint64_t address = base + static_cast<uint64_t>(offset);
  return wide ? address : static_cast<uint32_t>(address);
}

template <typename F>
inline void ForEachLane(uint32_t mask, F&& body) {
  for (; mask; mask &= mask - 1) body(__builtin_ctz(mask));
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_MACHINE_H_
