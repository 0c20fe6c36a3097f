// Executes instructions of warps in the pipes of their sub-core and in the memory of their SM.
#include <algorithm>
#include <bit>

#include "emulator/timing/cluster_timing.h"
#include "emulator/timing/lane_addresses.h"
#include "emulator/timing/shared_port.h"

namespace tilelang::emulator {
namespace {

// Buffers of global memory lie above this address, and the windows of other state spaces below.
constexpr uint64_t kGlobalWindow = uint64_t{1} << kBufferShift;
// Cycles of queue before a port of memory. A longer queue holds the warp.
constexpr double kQueue = 32;

// Computes the addresses of the active lanes.
void Addresses(const Warp& warp, const AddressOperand& operand, uint32_t mask, uint64_t* out) {
  if (mask != kAllLanes) {
    ForEachLane(mask, [&](int lane) { out[lane] = operand.At(warp, lane); });
  } else if (operand.wide) {
    const uint64_t* base = warp.Reg<uint64_t>(operand.slot);
    for (int i = 0; i < kLanes; ++i) out[i] = base[i] + static_cast<uint64_t>(operand.offset);
  } else {
    const uint32_t* base = warp.Reg<uint32_t>(operand.slot);
    for (int i = 0; i < kLanes; ++i) out[i] = base[i] + static_cast<uint32_t>(operand.offset);
  }
}

}  // namespace

ClusterTiming::Issued ClusterTiming::Execute(Warp& warp, uint32_t pc, const OpCost& cost,
                                             uint32_t mask, Cycle at) {
  Sm& sm = *sm_;
  WarpClock& clock = *clock_;
  SubCore& core = *core_;
  switch (cost.unit) {
    case Unit::kMufu: {
      at = std::max(at, clock.special_free);
      Issued issued =
          Take(core.mufu, cost, at, Reason::kPipe, BesideWgmma(sm, core, &core.mufu, at));
      clock.special_free = issued.at + cost.cycles;
      return issued;
    }
    case Unit::kMma: {
      Issued issued = Take(core.mma, cost, at, Reason::kTensorPipe);
      issued.result = Reason::kTensorPipe;
      return issued;
    }
    case Unit::kShuffle: {
      const Cycle start = sm.shared.Claim(at, 1) - 1;
      return {start, start + cost.latency, Reason::kDependency, Reason::kPipe};
    }
    case Unit::kTensorLoad: {
      // One warp alone does not fill the port.
      if (core.last_loader == &clock) at = std::max(at, core.next_load);
      Issued issued = Take(core.tensor_memory, cost, at, Reason::kTensorMemory);
      core.last_loader = &clock;
      core.next_load = issued.at + cost.cycles + machine_.figures.tmem_warp_pause;
      issued.ready = issued.at + cost.cycles + cost.latency;
      issued.result = Reason::kTensorMemory;
      clock.tensor_loads = std::max(clock.tensor_loads, issued.ready);
      return issued;
    }
    case Unit::kCopy:
      return ThreadCopy(warp, pc, cost, mask, at);
    case Unit::kShared:
    case Unit::kMatrixMove:
    case Unit::kGlobal:
    case Unit::kGeneric:
      return Memory(warp, pc, cost, mask, at);
    default:
      return {at, at + cost.latency};
  }
}

ClusterTiming::Issued ClusterTiming::Memory(Warp& warp, uint32_t pc, const OpCost& cost,
                                            uint32_t mask, Cycle at) {
  if (!cost.address) return {at, at + cost.latency};
  uint64_t addresses[kLanes];
  Addresses(warp, *cost.address, mask, addresses);
  WarpClock& clock = *clock_;
  const bool generic = cost.unit == Unit::kGeneric;
  const bool shared = cost.unit == Unit::kShared || cost.unit == Unit::kMatrixMove ||
                      (generic && addresses[std::countr_zero(mask)] < kGlobalWindow);
  // An access waits for earlier stores of its space, because ptxas does not know that they touch
  // other bytes.
  if ((shared || generic) && !cost.constant) at = std::max(at, clock.last_shared_store);
  if ((!shared || generic) && !cost.constant) at = std::max(at, clock.last_global_store);
  if (!cost.store) {
    return shared ? SharedAccess(pc, cost, mask, at, addresses)
                  : GlobalAccess(pc, cost, mask, at, addresses);
  }
  Issued issued = shared ? SharedAccess(pc, cost, mask, at, addresses)
                         : GlobalAccess(pc, cost, mask, at, addresses);
  Cycle& last = shared ? clock.last_shared_store : clock.last_global_store;
  last = std::max(last, issued.at);
  return issued;
}

ClusterTiming::Issued ClusterTiming::SharedAccess(uint32_t pc, const OpCost& cost, uint32_t mask,
                                                  Cycle at, const uint64_t* addresses) {
  const Figures& figures = machine_.figures;
  Sm& sm = *sm_;
  int wavefronts = 0, ideal = 0;
  if (cost.unit == Unit::kMatrixMove) {
    // Each matrix has eight rows of 16 bytes, whose addresses eight lanes hold.
    for (int first = 0; first < cost.bytes / 2; first += 8) {
      wavefronts += SharedWavefronts(addresses, mask & (0xFFu << first), 16);
      ++ideal;
    }
  } else if (cost.bytes != 0) {
    wavefronts = SharedWavefronts(addresses, mask, cost.bytes, cost.shift, cost.load);
    ideal = std::min(wavefronts, IdealWavefronts(mask, cost.bytes));
  }
  if (!figures.bank_conflicts) wavefronts = ideal;
  TimedMachine::Count& count = machine_.counts[pc];
  count.wavefronts += wavefronts;
  count.conflicts += std::max(0, wavefronts - ideal);
  const Cycle end = sm.shared.Claim(std::max(at, sm.copies_taken()), wavefronts);
  const int latency = cost.atomic                      ? figures.shared_atomic_latency
                      : cost.unit == Unit::kMatrixMove ? figures.matrix_latency
                                                       : figures.shared_latency;
  return {std::max(at, end - wavefronts - kQueue), end - 1 + latency, Reason::kMemory,
          Reason::kMemory};
}

ClusterTiming::Issued ClusterTiming::GlobalAccess(uint32_t pc, const OpCost& cost, uint32_t mask,
                                                  Cycle at, const uint64_t* addresses) {
  CollectLines(addresses, mask, std::max<int>(1, cost.bytes), &lines_);
  for (const LineAccess& line : lines_) {
    machine_.counts[pc].sectors += line.count();
  }
  Sm& sm = *sm_;
  if (cost.atomic) {
    const Cycle done = sm.AtomicLines(at, lines_);
    return {at, done, Reason::kMemory, Reason::kMemory};
  }
  if (cost.store) {
    const Cycle held = std::max(at, sm.StoreLines(at, lines_) - kQueue);
    return {held, held + 1, Reason::kMemory, Reason::kMemory};
  }
  return {at, sm.LoadLines(at, lines_, cost.past_l1 ? Sm::Route::kL2 : Sm::Route::kL1),
          Reason::kMemory, Reason::kMemory};
}

ClusterTiming::Issued ClusterTiming::ThreadCopy(Warp& warp, uint32_t pc, const OpCost& cost,
                                                uint32_t mask, Cycle at) {
  uint64_t addresses[kLanes];
  Addresses(warp, *cost.source, mask, addresses);
  CollectLines(addresses, mask, cost.bytes, &lines_);
  for (const LineAccess& line : lines_) {
    machine_.counts[pc].sectors += line.count();
  }
  Sm& sm = *sm_;
  const Cycle there = sm.LoadLines(at, lines_, Sm::Route::kToShared);
  // Each part of a line is written when it arrives.
  const int parts = static_cast<int>(lines_.size());
  Addresses(warp, *cost.address, mask, addresses);
  const int wavefronts = SharedWavefronts(addresses, mask, cost.bytes);
  machine_.counts[pc].wavefronts += wavefronts;
  machine_.counts[pc].conflicts += std::max(0, wavefronts - IdealWavefronts(mask, cost.bytes));
  WarpClock& clock = *clock_;
  Capacity& written = machine_.figures.fills_apart ? sm.fill : sm.shared;
  clock.copies = std::max(clock.copies, written.Claim(there, std::max(wavefronts, parts)));
  // The copy needs its address registers until the load unit has taken it, and its warp mostly
  // writes them next.
  const Cycle held = std::max(at, sm.copies_taken());
  return {held, held + 1, Reason::kMemory, Reason::kMemory};
}

}  // namespace tilelang::emulator
