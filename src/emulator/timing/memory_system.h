// L2 and HBM as queues that the SMs share.
#ifndef TILELANG_EMULATOR_TIMING_MEMORY_SYSTEM_H_
#define TILELANG_EMULATOR_TIMING_MEMORY_SYSTEM_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/timing/capacity.h"
#include "emulator/timing/figures.h"
#include "emulator/timing/sharing.h"

namespace tilelang::emulator {

// Sectors of 32 bytes of one line of 128 bytes: a bit for each.
struct LineAccess {
  uint64_t line = 0;  // address / 128
  uint32_t sectors = 0xF;
  // Without a special instruction std::popcount is slow: four bits have their counts in one word.
  uint32_t count() const { return 0x4332'3221'3221'2110u >> 4 * sectors & 7; }
  uint32_t bytes() const { return count() * 32; }
};

// Loads of threads, cp.async, and tensor maps, for which L2 fetches whole lines.
enum class Asker : uint8_t { kThread, kCopy, kTensorMap };

class MemorySystem {
 public:
  // `timed`: SMs whose accesses come here, of `active` that work at the same time and share L2.
  MemorySystem(const Figures& figures, int timed, int active, bool warm, double clock_mhz);

  // Returns the time at which the sectors arrive that a load requests at `from`.
  // `wide`: a multicast to four CTAs or more.
  Cycle Load(Cycle from, const LineAccess& access, Asker asker = Asker::kThread, bool wide = false);
  // Returns the time at which a store has left the SM.
  Cycle Store(Cycle from, const LineAccess& access);
  Cycle Atomic(Cycle from, const LineAccess& access);
  void Forget(Cycle time);
  // Sets the clock of the SMs, as a share of the clock without a power limit. HBM, and an L2 with
  // its own clock, keep their rates per second.
  void SlowDown(double share) { clock_ = share; }

  Sharing sharing;
  const Capacity& l2() const { return l2_; }
  const Capacity& dram() const { return dram_; }
  double dram_bytes() const { return dram_bytes_; }
  double l2_bytes() const { return l2_bytes_; }
  // Returns the part of `dram_bytes` that only the first wave loads: L2 keeps it for later waves.
  double once_bytes() const { return sharing.once_bytes() / others_; }

 private:
  Cycle TakeL2(Cycle from, double bytes) {
    return l2_.Take(from, figures_.l2_own_clock ? clock_ * bytes : bytes);
  }
  Cycle ClaimDram(Cycle from, double bytes) { return dram_.Claim(from, clock_ * bytes); }
  // Returns whether the other half of the line's 256 bytes has been accessed lately. Notes that
  // this half is.
  bool HasNeighbour(uint64_t line);
  // Returns how much longer a load from HBM takes because of other loads.
  double QueueOf(Cycle from);
  // Bytes that HBM has to be asked for, or none, which may be in the other half of L2; notes that
  // they are in L2 then.
  struct Missing {
    double bytes = 0;
    bool far = false;
  };
  Missing Misses(const LineAccess& access, bool whole = false);

  const Figures& figures_;
  bool warm_;
  double start_clock_;  // of the SMs before the limit of power, of the one that figures are for
  double clock_ = 1;
  Capacity l2_, dram_;
  double dram_bytes_ = 0, l2_bytes_ = 0;
  Cycle window_begin_;
  double queue_ = 0, window_served_ = 0;
  struct Pair {
    uint64_t number = ~uint64_t{0};
    uint32_t seen = 0;
  };
  std::vector<Pair> recent_;  // pairs of lines that HBM has been asked for
  struct Present {
    uint32_t sectors = 0, stored = 0;
    double when = 0;  // what had been loaded from HBM then
  };
  double others_;                                  // SMs for each one whose accesses come here
  std::unordered_map<uint64_t, Present> present_;  // in L2, by line
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_MEMORY_SYSTEM_H_
