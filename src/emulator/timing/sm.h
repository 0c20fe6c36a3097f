// The pipes of one SM.
#ifndef TILELANG_EMULATOR_TIMING_SM_H_
#define TILELANG_EMULATOR_TIMING_SM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/timing/capacity.h"
#include "emulator/timing/figures.h"
#include "emulator/timing/memory_system.h"
#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {

constexpr int kSubCores = 4;

// Each pipe serves cycles: one a cycle.
struct SubCore {
  Capacity issue{1, 8}, fma{1, 16}, alu{1, 16}, half_rate{1, 16}, mufu{1, 16}, fp64{1, 16},
      mma{1, 16}, tensor_memory{1, 16};
  void Forget(Cycle time);
  // The pipe of arithmetic, null for other instructions.
  Capacity* PipeOf(Unit unit) {
    if (unit == Unit::kAdd) return alu.busy() <= fma.busy() ? &alu : &fma;
    const auto pipe = kPipes[static_cast<size_t>(unit)];
    return pipe ? &(this->*pipe) : nullptr;
  }
  // The warp that loaded last from tensor memory, and the time when it may load again.
  const void* last_loader = nullptr;
  Cycle next_load = 0;

 private:
  static const std::array<Capacity SubCore::*, kUnits> kPipes;
};

inline constexpr std::array<Capacity SubCore::*, kUnits> SubCore::kPipes = [] {
  std::array<Capacity SubCore::*, kUnits> pipes{};
  pipes[static_cast<size_t>(Unit::kFma)] = &SubCore::fma;
  pipes[static_cast<size_t>(Unit::kAlu)] = &SubCore::alu;
  pipes[static_cast<size_t>(Unit::kVote)] = &SubCore::alu;
  pipes[static_cast<size_t>(Unit::kHalfRate)] = &SubCore::half_rate;
  pipes[static_cast<size_t>(Unit::kFp64)] = &SubCore::fp64;
  return pipes;
}();

// Lines of global memory that an SM keeps.
class L1 {
 public:
  explicit L1(double bytes);
  // The time at which the sectors are there; kNever if they are not.
  Cycle Find(const LineAccess& access) const;
  void Fill(const LineAccess& access, Cycle ready);

 private:
  static constexpr int kWays = 4;
  struct Line {
    uint64_t line = ~uint64_t{0};
    uint32_t sectors = 0;
    uint64_t used = 0;
    Cycle ready = 0;
  };
  const Line* Lookup(uint64_t line) const;
  size_t sets_;
  uint64_t clock_ = 0;
  std::vector<Line> lines_;
};

class Sm {
 public:
  // `number` counts the SMs that are timed.
  Sm(const Figures& figures, MemorySystem& memory, double l1_bytes, int number);

  // Loads and stores of global memory. `lines` lie in one instruction of a warp. What comes past
  // L1 to shared memory is written there by the caller.
  enum class Route : uint8_t { kL1, kL2, kToShared };
  Cycle LoadLines(Cycle from, const std::vector<LineAccess>& lines, Route route);
  // Returns the time at which the SM has sent the lines.
  Cycle StoreLines(Cycle from, const std::vector<LineAccess>& lines);
  Cycle AtomicLines(Cycle from, const std::vector<LineAccess>& lines);
  // Returns the time at which the unit of loads has the lines of all cp.async so far. Later loads
  // wait for it.
  Cycle copies_taken() const { return copies_taken_; }
  bool loaded = false;                       // something, by TMA
  double copied() const { return copied_; }  // bytes of cp.async
  double scale_cycles = 0;                   // of the tensor core, for tcgen05.cp
  // Cycles that loads of warps past L1 have taken, all added up.
  double under_way() const { return under_way_; }
  void Forget(Cycle time);

  std::array<SubCore, kSubCores> cores;
  Capacity shared;         // wavefronts
  Capacity fill;           // wavefronts that copies write, where these pass by the port of others
  Capacity lsu;            // lines
  Capacity l2_port;        // bytes that are loaded
  Capacity l2_store_port;  // bytes that are stored
  Capacity launcher;       // cycles that starting CTAs takes
  Capacity tma;            // cycles of the unit
  Capacity tensor;         // cycles of the tensor core: wgmma, tcgen05.mma and tcgen05.cp
  MemorySystem& memory;
  const int number;
  // Tracks of its engines, -1 before.
  int32_t tensor_track = -1, tma_track = -1;

 private:
  // A line of cp.async, from L2.
  Cycle CopyLine(Cycle from, const LineAccess& access);

  const Figures& figures_;
  L1 l1_;
  Cycle copies_taken_ = 0;
  double copied_ = 0, under_way_ = 0;
  std::vector<Cycle> requests_;  // ends of the last ones of cp.async
  size_t oldest_ = 0;            // of these
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_SM_H_
