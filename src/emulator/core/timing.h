// Declares the exchange between a timed launch and its warps and engines: src/emulator/timing
// derives from this class. Launches that are not timed have no such object.
#ifndef TILELANG_EMULATOR_CORE_TIMING_H_
#define TILELANG_EMULATOR_CORE_TIMING_H_

#include <cstdint>
#include <span>

#include "emulator/core/cycle.h"
#include "emulator/core/op.h"

namespace tilelang::emulator {

class Cluster;
class Cta;
class GridShadow;
class Warp;
struct Issuer;
struct Launch;
struct WarpSlice;

// Bytes of global memory one after the other.
struct GlobalRun {
  uint64_t address = 0;
  uint32_t bytes = 0;
};

// The work that an asynchronous operation asks of its engine.
struct AsyncWork {
  enum class Kind : uint8_t {
    kMarker,       // nothing: complete with what comes before it in its channel
    kThreadCopy,   // cp.async: complete with the copies of the warp's instruction
    kBulkLoad,     // TMA, global to shared memory
    kBulkSend,     // TMA, shared memory to that of another CTA
    kBulkRead,     // TMA store, its reading of shared memory
    kBulkWrite,    // TMA store, its writing of global memory
    kWgmma,        // of a warpgroup
    kTensorMma,    // tcgen05.mma
    kTensorCopy,   // tcgen05.cp
    kTensorShift,  // tcgen05.shift
    kTensorCommit,
    kTensorStore,  // tcgen05.st
    kRemoteStore,  // st.async, red.async
  };
  Kind kind = Kind::kMarker;
  bool a_in_shared = true;  // operand A of a matrix instruction
  bool multicast = false;   // not the first target of a multicast
  bool pair = false;        // of both CTAs of a pair
  int m = 0, n = 0;         // of a matrix instruction; K is always 32 bytes of a row of A
  uint32_t targets = 1;     // CTAs that a load writes
  int64_t flops = 0;
  uint32_t receiver = 0;            // rank of the CTA that a load or a send writes
  uint32_t bytes = 0;               // of a copy
  std::span<const GlobalRun> runs;  // in global memory, valid during the call
};

// The clock of one cluster. All times are cycles of the SM from the start of the launch.
class Timing {
 public:
  virtual ~Timing() = default;
  // WarpRunner::RunOne, which asks the derived class
  //   Turn Issue(Warp& warp, uint32_t pc, uint32_t mask);
  // before the warp executes an instruction for the lanes in `mask` (0: its guard is false
  // everywhere), maybe again for the same one, if it then waits; and tells it
  //   void Done(Warp& warp, uint32_t pc, uint32_t mask);
  // when it has been executed, and the warp goes on. Not by virtual calls: there are too many.
  virtual void Run(Warp& warp, uint64_t budget, bool boosted, WarpSlice* slice) = 0;
  enum class Turn : uint8_t {
    kLater,   // others come first
    kIssued,  // the warp executes it
    kTold,    // the same, and Done wants to hear when it has
  };

  // Return how far the warp has come, in cycles and in nanoseconds.
  virtual Cycle Clock(const Warp& warp) const = 0;
  virtual double Nanoseconds(const Warp& warp) const = 0;

  // Returns the time at which the operation that is issued now completes.
  virtual Cycle Start(const Issuer& issuer, const AsyncWork& work) = 0;
  // An engine acts now, until Leave is called with the result.
  virtual Cycle Enter(Cycle now) = 0;
  virtual void Leave(Cycle before) = 0;
  // The running instruction of the issuer's warp waits for an operation that completes then.
  virtual void Await(const Issuer& issuer, AsyncWork::Kind kind, Cycle ready) = 0;
  // Barriers: somebody arrives now; the last of a phase has; a warp passes.
  virtual void Arrive(const void* barrier, const Issuer& issuer) = 0;
  virtual void Complete(const void* barrier, bool named) = 0;
  virtual void Pass(const void* barrier, Warp& warp, bool named) = 0;
};

// Runs some of the clusters, or all, in the order of their clocks, notes them in
// launch.timed_clusters, and leaves the result in launch.timing. `current` is set to what runs.
void RunTimed(Launch& launch, GridShadow* shadow, const Cluster** current);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_TIMING_H_
